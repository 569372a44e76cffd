"""`make demo`: an unmodified engine generates the same text with and without the mirror."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import fetch

HERE = Path(__file__).resolve().parent
NUMAMIRROR = Path(sys.executable).parent / "numamirror"


def show(command: list[str]) -> str:
    """Prints the command as a person would type it, runs it, returns its stdout.

    Raises subprocess.CalledProcessError when it fails.
    """
    print(f"\n$ {shlex.join(map(readable, command))}", flush=True)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def readable(word: str) -> str:
    path = Path(word)
    return path.name if path.is_absolute() else word


def mirror_nodes() -> list[int]:
    answer = subprocess.run(
        [NUMAMIRROR, "topology", "--json"], check=True, stdout=subprocess.PIPE, text=True
    )
    nodes: list[int] = json.loads(answer.stdout)["mirror_nodes"]
    return nodes


def main() -> int:
    model = fetch.gemma()
    engine = [sys.executable, str(HERE / "drive_xllamacpp.py"), "--model", str(model), "--n", "24"]
    print(show([str(NUMAMIRROR), "topology"]), end="")
    # Gemma is small and so are many of its tensors: --min-size 0 mirrors them all.
    options = ["--min-size", "0"]
    if len(mirror_nodes()) < 2:
        print("\nThis machine has one node: what follows is a rehearsal with two pretend nodes.")
        options += ["--rehearse", "2"]
    mirrored = show([str(NUMAMIRROR), "run", *options, "--", *engine])
    print(mirrored, end="")
    plain = show(engine)
    print(plain, end="")
    same = json.loads(mirrored)["tokens"] == json.loads(plain)["tokens"]
    print("\nidentical" if same else "\nDIFFERENT: this is a bug, please report it")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
