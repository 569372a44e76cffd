"""Runs bench/engine_blocks.py on a real engine, plain or under `numamirror run`."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import programs

sys.path.append(str(programs.REPOSITORY / "tests/engines"))

import fetch
import moe

# Two copies, none of them the primary: every read of a weight is redirected.
MIRRORED = ("--rehearse", "2", "--copy-home", "--min-size", "1", "--report", "none")
COPIES = 2
MOE = "MoE Q8_0"


@functools.cache
def models() -> dict[str, Path]:
    """Name -> file. A dense model, and a mixture of experts whose rows pass ggml_vec_dot."""
    return {"Gemma 3 270M Q4_K_M": fetch.gemma(), MOE: mixture()}


def mixture() -> Path:
    """Random weights with the widths of Qwen3-30B-A3B: how long a row is decides what a call more
    for each of them costs."""
    shape = moe.Shape("qwen3moe", layers=2, embd=2048, ff=768, vocab=4096, experts_used=4, heads=16)
    path = programs.build() / "mixture.gguf"
    if not path.exists():
        partial = path.with_suffix(".partial")
        moe.write_model(partial, shape, "Q8_0")
        partial.rename(path)
    return path


@functools.cache
def engine_dir() -> Path:
    return fetch.node_llama_cpp()


def describe() -> dict[str, str]:
    """The engine's build, and the models with their sizes."""
    built = json.loads((engine_dir() / "_nlcBuildMetadata.json").read_text())
    release = built["buildOptions"]["llamaCpp"]["release"]
    sizes = (f"{name} ({path.stat().st_size >> 20} MiB)" for name, path in models().items())
    return {
        "engine": f"llama.cpp {release} of {fetch.NODE_LLAMA_CPP}",
        "models": ", ".join(sizes) + " of random weights",
    }


def run(
    model: Path,
    blocks: int,
    *,
    mirrored: bool,
    alternate: bool = False,
    threads: int = 2,
    run_options: tuple[str, ...] = MIRRORED,
    copies: int = COPIES,
    switch: str = "numamirror_test_set_redirect",
) -> dict[str, Any]:
    """What engine_blocks.py printed. copies: of a rehearsal; 1 is one that all threads read, which
    the launcher has no use for. switch: the shim's function that makes the difference between
    alternating blocks. Raises CalledProcessError with the engine's log."""
    driver = [sys.executable, str(Path(__file__).parent / "engine_blocks.py")]
    options = ["--model", str(model), "--engine-dir", str(engine_dir()), "--blocks", str(blocks)]
    options += ["--threads", str(threads), *(["--alternate", switch] if alternate else [])]
    launcher = [sys.executable, "-m", "numamirror_cli", "run", *run_options, "--"]
    if copies != COPIES:
        launcher += ["env", f"NUMAMIRROR_REHEARSE={copies}"]
    before = launcher if mirrored else []
    done = subprocess.run(
        [*before, *driver, *options],
        check=True,
        capture_output=True,
        text=True,
        errors="replace",
        cwd=programs.REPOSITORY,
        env=os.environ | {"NUMAMIRROR_SHIM": str(programs.shim())},
    )
    line: dict[str, Any] = json.loads(done.stdout)
    return line
