"""A program on the stand-in engine of native/tests, built in the shapes that no package has."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bound_inside import bind
from rig import HERE, REPOSITORY, finished, numamirror_run

STAND_IN = REPOSITORY / "native" / "tests" / "stand_in"
ENGINE = [file for file in sorted(STAND_IN.glob("*.c")) if file.name != "stand_in_rpc.c"]
VERSION = "9.8.7"


def library(
    directory: Path, *flags: str, is_bound: Callable[[str], bool] = lambda _: False, cc: str = "cc"
) -> Path:
    """libengine.so, built with those flags, and its calls of those functions bound inside."""
    path = directory / "libengine.so"
    shared = ["-shared", "-fPIC", "-O1", "-fno-inline", "-fsemantic-interposition"]
    compile_c(cc, path, ENGINE, *shared, *flags)
    bind(path, is_bound)
    return path


def program(engine: Path, *, cc: str = "cc", name: str = "program") -> Path:
    """A program linked with it that computes three graphs, of dense weights and of experts."""
    path = engine.parent / name
    linked = [f"-L{engine.parent}", f"-l:{engine.name}", f"-Wl,-rpath,{engine.parent}"]
    compile_c(cc, path, [HERE / "poison" / "refused.c"], f"-I{STAND_IN}", *linked)
    return path


def inside_program(directory: Path, *flags: str) -> Path:
    """The same with the engine inside, one of its files called as ggml's, and the names kept."""
    named = directory / "ggml-backend.c"
    named.write_text(f'#include "{STAND_IN / "stand_in.c"}"\n')
    # In this order private functions lie between the callers and the called: where none do, the
    # shim takes both for one file's, whose calls may follow rules of their own.
    rest = [STAND_IN / f"stand_in_{part}.c" for part in ("kernels", "graph", "calls")]
    sources = [named, *rest, HERE / "poison" / "refused.c"]
    path = directory / "inside"
    compile_c(
        "cc", path, sources, f"-I{STAND_IN}", "-O1", "-fno-inline", *flags, "-lpthread", "-ldl"
    )
    return path


def module(engine: Path) -> Path:
    """The same as a library with a function main(), for programs that load it."""
    path = engine.parent / "libmain.so"
    linked = [f"-L{engine.parent}", f"-l:{engine.name}", "-Wl,-rpath,$ORIGIN"]
    sources = [HERE / "poison" / "refused.c"]
    compile_c("cc", path, sources, f"-I{STAND_IN}", "-shared", "-fPIC", *linked)
    return path


def compile_c(cc: str, output: Path, sources: Sequence[Path], *flags: str) -> None:
    subprocess.run([cc, "-std=gnu11", "-o", output, *sources, *flags], check=True)


def run(
    directory: Path, command: Sequence[object], under: Sequence[str] = ()
) -> tuple[str, dict[str, Any]]:
    """What a rehearsal with that command says on stderr, and the mirror, {} for none. under: the
    command that starts `numamirror run`."""
    report = directory / "run.json"
    rehearsal = [*under, *numamirror_run(report, "--rehearse", "2")]
    done = finished([*rehearsal, *map(str, command)], {})
    return done.stderr, json.loads(report.read_text())["mirror"] or {}
