"""What else is in the process, or stands between us and the engine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from . import runs
from .apt import Missing, library
from .engine_program import build, products, was_mirrored

ALLOCATORS = {
    "libjemalloc.so.2": "libjemalloc2",
    "libtcmalloc_minimal.so.4": "libtcmalloc-minimal4",
}


@pytest.fixture(scope="module")
def program(libllama: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A program on a real engine that starts at once, and its argument."""
    return str(build(libllama, tmp_path_factory.mktemp("program"))), str(libllama)


@pytest.fixture(scope="module")
def plain(program: tuple[str, str]) -> dict[str, str]:
    return products(runs.run(program))


# ---- in the process ----


@pytest.mark.parametrize("name", ALLOCATORS)
def test_an_allocator_that_the_user_preloads_serves_beside_us(
    name: str, libllama_engine: tuple[str, ...], tmp_path: Path
) -> None:
    try:
        allocator = library(ALLOCATORS[name], name)
    except Missing as reason:
        pytest.skip(str(reason))
    preloaded = {"LD_PRELOAD": str(allocator)}
    run = runs.run_mirrored(tmp_path, libllama_engine, *runs.REHEARSED, env=preloaded)
    assert run.line == runs.plain_line(libllama_engine)
    assert run.coverage == 1.0
    assert run.verdict[0].startswith("mirrored: 2 copies")
    maps = runs.run((*runs.NUMAMIRROR, "--rehearse", "2", "cat", "/proc/self/maps"), preloaded)
    assert str(allocator) in maps.printed and "libnumamirror.so" in maps.printed


def test_an_engine_built_with_address_sanitizer_is_mirrored(
    libllama: Path, plain: dict[str, str], tmp_path: Path
) -> None:
    sanitized = build(libllama, tmp_path, "-fsanitize=address")
    # The engine's backends live until the end; that is no leak of anybody's to report here.
    quiet = {"ASAN_OPTIONS": "detect_leaks=0"}
    run = runs.run_mirrored(
        tmp_path, (sanitized, libllama), *runs.REHEARSED, under=runs.steady(), env=quiet
    )
    assert products(run) == plain
    assert was_mirrored(run)
    assert "AddressSanitizer" not in run.stderr


def test_an_engine_opened_with_deepbind_runs_and_is_not_called_mirrored(
    libllama: Path, model: Path, tmp_path: Path
) -> None:
    words = ("--engine-dir", libllama, "--model", model, "--n", "3")
    command = runs.program("lives.py", "deep-bind", *words)
    run = runs.run_mirrored(tmp_path, command, *runs.REHEARSED)
    assert run.line == runs.plain_line(command)
    assert run.record["mirror"]["mirrored_bytes"] == 0
    [sentence] = run.record["verdict"]
    assert sentence["text"].startswith("NOT mirrored: ")
    assert "RTLD_DEEPBIND" in sentence["remedy"]


# ---- between us and the engine ----


def wrapped(kind: str, command: Sequence[str], directory: Path) -> list[str]:
    """The command behind a script, a pipeline, nohup, or scripts that lead to a loader."""
    program, argument = command
    script = directory / "start"
    if kind == "pipeline":
        return ["bash", "-c", f"{program} {argument} | cat; exit ${{PIPESTATUS[0]}}"]
    if kind == "nohup":
        return ["nohup", program, argument]
    if kind == "script":
        script.write_text(f'#!/bin/sh\n"{program}" "$@"\n')
    else:
        loader = directory / "ld.so"
        shutil.copy(loader_of(program), loader)
        script.write_text(f'#!/bin/sh\nexec "{loader}" --inhibit-cache "{program}" "$@"\n')
    script.chmod(0o755)
    return [str(script), argument]


def loader_of(program: str) -> str:
    from numamirror_cli.engine.elf import read_elf

    facts = read_elf(Path(program))
    assert facts is not None and facts.loader is not None
    return facts.loader


@pytest.mark.parametrize("kind", ["script", "pipeline", "nohup", "bundled loader"])
def test_an_engine_behind_a_wrapper_is_mirrored(
    kind: str, program: tuple[str, str], plain: dict[str, str], tmp_path: Path
) -> None:
    run = runs.run_mirrored(tmp_path, wrapped(kind, program, tmp_path), *runs.REHEARSED)
    assert products(run) == plain
    assert was_mirrored(run)


def test_env_i_keeps_the_shim_out_and_that_is_said(
    program: tuple[str, str], plain: dict[str, str], tmp_path: Path
) -> None:
    run = runs.run_mirrored(tmp_path, ("env", "-i", *program), *runs.REHEARSED)
    assert products(run) == plain
    assert run.naming("cannot preload, policy only: env -i takes LD_PRELOAD away")
    assert run.verdict[0].startswith("NOT mirrored: ")


@pytest.mark.skipif(not shutil.which("sudo"), reason="sudo is not installed")
def test_sudo_keeps_the_shim_out_and_that_is_said(
    program: tuple[str, str], plain: dict[str, str], tmp_path: Path
) -> None:
    if subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode != 0:
        pytest.skip("sudo asks for a password here")
    run = runs.run_mirrored(tmp_path, ("sudo", "-n", *program), *runs.REHEARSED)
    assert products(run) == plain
    [line] = run.naming("cannot preload, policy only: ")
    assert "sudo" in line and "numamirror run -- " in line
    assert run.verdict[0].startswith("NOT mirrored: ")
    behind = (*("sudo", "-n", "env", f"PYTHONPATH={runs.REPOSITORY}"), *shim_variable())
    run = runs.run_mirrored(tmp_path, program, *runs.REHEARSED, under=behind)
    assert products(run) == plain
    assert was_mirrored(run)


def shim_variable() -> list[str]:
    named = os.environ.get("NUMAMIRROR_SHIM")
    return [f"NUMAMIRROR_SHIM={named}"] if named else []
