"""A small program of one's own on a real engine: programs/write_weights.c, linked with libggml."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from . import runs

SOURCE = runs.HERE / "programs" / "write_weights.c"


def build(libllama: Path, directory: Path, *flags: str) -> Path:
    """The program, compiled with those flags; skips where that cannot be done."""
    if not shutil.which("cc"):
        pytest.skip("cc is not installed")
    program = directory / "write_weights"
    libraries = [next(libllama.glob("libggml.*.so")), libllama / "libggml-base.so"]
    strict = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]
    command = ["cc", *strict, *flags, "-o", program, SOURCE, *libraries]
    done = subprocess.run(
        [str(word) for word in [*command, f"-Wl,-rpath,{libllama}"]], capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.skip(f"cc {' '.join(flags)} does not work here: {done.stderr.strip()[-200:]}")
    return program


def products(run: runs.Run) -> dict[str, str]:
    """What it prints: a hash of the product after each step."""
    assert run.code == 0, run.stderr[-3000:]
    return dict(line.rsplit(" ", 1) for line in run.printed.splitlines())


def was_mirrored(run: runs.Run) -> bool:
    """At first, that is: in its last steps the program writes to its weights in graphs."""
    built = [event for event in run.record["events"] if event["event"] == "coverage"]
    return bool(built) and built[0]["mirrored_bytes"] == built[0]["gemm_bytes"] > 0
