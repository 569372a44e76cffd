"""Starts engines plain and under the launcher, and keeps what was printed, said and recorded."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
ENGINES = HERE.parent / "engines"
sys.path.insert(0, str(ENGINES))

NUMAMIRROR = (sys.executable, "-m", "numamirror_cli", "run")
# As `numamirror run` on a machine with two nodes, both copies on the one that there is.
TWO_COPIES = (sys.executable, str(HERE / "two_copies.py"))
# Two pretend nodes, a replica for each, and the small matrices of small models too.
REHEARSED = ("--rehearse", "2", "--copy-home", "--min-size", "1")
SECONDS = 300


@dataclass(frozen=True)
class Run:
    """code: exit status, -n for signal n. printed: its stdout. said: our lines on stderr, without
    the program's. record: the file of --json, {} when there was none."""

    code: int
    printed: str
    said: tuple[str, ...]
    stderr: str
    record: dict[str, Any]

    @property
    def line(self) -> Any:
        """The driver's JSON line. Fails with the log's tail when there is none."""
        assert self.code == 0, f"exit {self.code}\n{self.stderr[-3000:]}"
        return json.loads(self.printed)

    @property
    def verdict(self) -> tuple[str, ...]:
        return tuple(sentence["text"] for sentence in self.record["verdict"])

    @property
    def coverage(self) -> float:
        mirror = self.record["mirror"]
        return float(mirror["coverage"]) if mirror else 0.0

    def naming(self, words: str) -> tuple[str, ...]:
        return tuple(line for line in self.said if words in line)


def run(command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> Run:
    """The command to its end, our package in reach and none of our variables set but `env`."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=REPOSITORY,
        env=environment(env or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS,
        check=False,
    )
    # An engine writes a line of its log in several parts: ours may begin in the middle of one.
    lines = (line.partition("numamirror: ") for line in done.stderr.splitlines())
    said = tuple(rest for _, mark, rest in lines if mark)
    return Run(done.returncode, done.stdout, said, done.stderr, {})


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NUMAMIRROR_")}
    if "NUMAMIRROR_SHIM" in os.environ:
        kept["NUMAMIRROR_SHIM"] = os.environ["NUMAMIRROR_SHIM"]
    return {**kept, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "80", **changes}


def run_mirrored(
    scratch: Path,
    command: Sequence[str | Path],
    *options: str,
    launcher: Sequence[str] = NUMAMIRROR,
    under: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Run:
    """LAUNCHER OPTIONS -- COMMAND; under: words to put before all of it."""
    record = scratch / "run.json"
    words = [*under, *launcher, "--report", "none", "--json", str(record), *options, "--"]
    done = run([*words, *command], env)
    found = json.loads(record.read_text()) if record.exists() else {}
    return Run(done.code, done.printed, done.said, done.stderr, found)


def refusing(*refusals: str) -> tuple[str, ...]:
    """The words that put a command under a filter: refusing("mbind=EPERM")."""
    return (sys.executable, str(HERE / "refuse.py"), *refusals, "--")


@functools.cache
def steady() -> tuple[str, ...]:
    """Words before what a sanitizer watches, none where they do not work: those of compilers before
    gcc 14 end programs at random where addresses are as random as some distributions make them."""
    words = ("setarch", "-R")
    with contextlib.suppress(FileNotFoundError):
        if subprocess.run([*words, "true"], capture_output=True).returncode == 0:
            return words
    return ()


def driver(name: str, *options: str, model: Path) -> tuple[str, ...]:
    """A driver of tests/engines, such as "drive_xllamacpp.py", on that model."""
    return (sys.executable, str(ENGINES / name), "--model", str(model), *options)


def program(name: str, *options: str | Path) -> tuple[str, ...]:
    """A program of this directory's programs/."""
    return (sys.executable, str(HERE / "programs" / name), *map(str, options))


@functools.cache
def plain_line(command: tuple[str, ...]) -> Any:
    """What the command's driver prints without us."""
    return run(command).line
