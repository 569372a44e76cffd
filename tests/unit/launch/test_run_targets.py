"""Programs of every kind start, and what is lost for them is one line (start cases S03-S08)."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from numamirror_cli.engine.elf import read_elf
from numamirror_cli.engine.shim import find_shim
from tests.unit.launch.conftest import environment, numamirror_run, numamirror_run_until

Script = Callable[..., Path]

# Exits with 11 when nothing of ours is loaded, with 12 when the stand-in is.
PROGRAM = """
#include <dlfcn.h>
int main(void) { return dlsym(RTLD_DEFAULT, "numamirror_standin") ? 12 : 11; }
"""
PLAIN = "int main(void) { return 11; }"
NOT_LOADED, LOADED = 11, 12
REHEARSE = ("--rehearse", "2")
# Another user, who may read this Python and this package, wherever they are.
AS_NOBODY = (
    *("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"),
    *("--inh-caps", "+dac_override", "--ambient-caps", "+dac_override"),
)

Build = Callable[..., Path]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """build(source, *flags, compiler="cc") -> the program; skips where that can't be built."""

    def compile_program(source: str, *flags: str, compiler: str = "cc") -> Path:
        path = tmp_path / "engine"
        if not shutil.which(compiler):
            pytest.skip(f"{compiler} is not installed")
        command = [compiler, "-D_GNU_SOURCE", "-x", "c", "-", "-o", str(path), *flags]
        made = subprocess.run(command, input=source.encode(), capture_output=True, check=False)
        if made.returncode:
            pytest.skip(f"{compiler} {' '.join(flags)} does not work here")
        return path

    return compile_program


def lines_on(program: str, stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith(f"numamirror: {program}: ")]


def test_an_ordinary_program_has_the_shim(build: Build, shim_env: dict[str, str]) -> None:
    assert numamirror_run(*REHEARSE, build(PROGRAM), env=shim_env).returncode == LOADED


def test_a_program_behind_scripts_has_the_shim(
    build: Build, script: Script, shim_env: dict[str, str]
) -> None:
    engine = build(PROGRAM)
    inner = script("inner", f'#!/bin/sh\n"{engine}"\n')
    outer = script("outer", f"#!/bin/sh\nexec '{inner}'\n")
    for wrapper in ([outer], ["env", "A=1", outer], ["nohup", outer], ["nice", outer]):
        assert numamirror_run(*REHEARSE, *wrapper, env=shim_env).returncode == LOADED, wrapper


def test_a_program_in_a_pipeline_has_the_shim(build: Build, shim_env: dict[str, str]) -> None:
    pipeline = f"{build(PROGRAM)} | cat; exit ${{PIPESTATUS[0]}}"
    result = numamirror_run(*REHEARSE, "bash", "-c", pipeline, env=shim_env)
    assert result.returncode == LOADED


def test_a_static_program_starts_with_one_line(build: Build, shim_env: dict[str, str]) -> None:
    """Case S03."""
    result = numamirror_run(*REHEARSE, build(PLAIN, "-static"), env=shim_env)
    assert result.returncode == NOT_LOADED
    assert lines_on("engine", result.stderr) == [
        "numamirror: engine: cannot preload, policy only: it is linked statically, without a "
        "loader (use a dynamically linked build)"
    ]


def test_a_musl_program_starts_with_one_line(build: Build, shim_env: dict[str, str]) -> None:
    """Case S03."""
    result = numamirror_run(*REHEARSE, build(PLAIN, compiler="musl-gcc"), env=shim_env)
    assert result.returncode == NOT_LOADED
    [line] = lines_on("engine", result.stderr)
    assert "cannot preload, policy only: it uses musl's loader" in line


def test_a_musl_program_below_a_script_starts_under_the_real_shim(
    build: Build, script: Script
) -> None:
    """What a script starts can't be known beforehand: the shim itself must do no harm there."""
    if find_shim({}).path is None:
        pytest.skip("the shim is not built: cmake -S native -B build/dev && make -C build/dev")
    engine = build(PLAIN, compiler="musl-gcc")
    start = script("start", f'#!/bin/sh\n"{engine}"\n')
    result = numamirror_run(*REHEARSE, start)
    assert result.returncode == NOT_LOADED
    assert "Error" not in result.stderr


def test_a_program_with_address_sanitizer_starts_with_both(
    build: Build, shim_env: dict[str, str]
) -> None:
    """Case S05."""
    engine = build(PROGRAM, "-fsanitize=address")
    facts = read_elf(engine)
    if facts is None or not facts.sanitizers:
        pytest.skip("this compiler links the sanitizer's runtime statically")
    result = numamirror_run(*REHEARSE, engine, env=shim_env)
    assert result.returncode == LOADED, result.stderr
    assert lines_on("engine", result.stderr) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a program to another user needs root")
def test_a_setuid_program_starts_with_one_line(build: Build, shim_env: dict[str, str]) -> None:
    """Case S04."""
    engine = build(PROGRAM)
    open_to_all(engine)
    os.chown(engine, 65534, 65534)
    engine.chmod(0o4755)
    result = numamirror_run(*REHEARSE, engine, env=shim_env)
    if result.returncode == LOADED:
        pytest.skip("this kernel does not raise privileges here (no_new_privs or nosuid)")
    assert result.returncode == NOT_LOADED
    [line] = lines_on("engine", result.stderr)
    assert "the loader drops LD_PRELOAD for a setuid program" in line


def open_to_all(file: Path) -> None:
    """Other users may come to it; pytest keeps its directories to ourselves."""
    for directory in file.parents[:-2]:
        directory.chmod(directory.stat().st_mode | 0o555)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a program capabilities needs root")
@pytest.mark.skipif(not shutil.which("setpriv"), reason="apt-get install util-linux")
def test_a_program_with_file_capabilities_starts_with_one_line(
    build: Build, shim_env: dict[str, str], standin_shim: Path
) -> None:
    """Case S04: started by another user, since root has them all already."""
    engine = build(PROGRAM)
    for file in (engine, standin_shim):
        open_to_all(file)
    before = numamirror_run(*REHEARSE, engine, env=shim_env, before=AS_NOBODY)
    if before.returncode != LOADED:
        pytest.skip(f"nothing runs as another user here: {before.stderr[-200:]}")
    # struct vfs_cap_data, revision 2, effective: CAP_SYS_NICE permitted.
    capabilities = struct.pack("<5I", 0x02000001, 1 << 23, 0, 0, 0)
    try:
        os.setxattr(engine, "security.capability", capabilities)
    except OSError as error:
        pytest.skip(f"file capabilities cannot be set here: {error}")
    result = numamirror_run(*REHEARSE, engine, env=shim_env, before=AS_NOBODY)
    if result.returncode == LOADED:
        pytest.skip("this kernel raises no capabilities here (no_new_privs or nosuid)")
    assert result.returncode == NOT_LOADED
    [line] = lines_on("engine", result.stderr)
    assert "the loader drops LD_PRELOAD" in line
    assert "file capabilities" in line and "ambient" in line


def test_env_i_starts_with_one_line(build: Build, shim_env: dict[str, str]) -> None:
    result = numamirror_run(*REHEARSE, "env", "-i", build(PROGRAM), env=shim_env)
    assert result.returncode == NOT_LOADED
    [line] = lines_on("engine", result.stderr)
    assert "env -i takes LD_PRELOAD away" in line


@pytest.fixture
def bundled(build: Build) -> Path:
    """A script that starts an engine through a loader of its own: script -> ld.so -> engine."""
    engine = build(PROGRAM)
    facts = read_elf(engine)
    assert facts is not None and facts.loader is not None
    loader = engine.parent / "lib" / "ld.so"
    loader.parent.mkdir()
    shutil.copy(facts.loader, loader)
    start = engine.parent / "start"
    start.write_text(f'#!/bin/sh\nexec "{loader}" --inhibit-cache "{engine}" "$@"\n')
    start.chmod(0o755)
    return start


def test_a_bundled_loader_loads_the_shim_into_the_engine(
    bundled: Path, shim_env: dict[str, str]
) -> None:
    """Case S07."""
    directly = [bundled.parent / "lib" / "ld.so", bundled.parent / "engine"]
    for command in ([bundled], directly):
        assert numamirror_run(*REHEARSE, *command, env=shim_env).returncode == LOADED


def test_an_engine_behind_a_bundled_loader_is_named(
    tmp_path: Path, build: Build, shim_env: dict[str, str]
) -> None:
    """Case S07: its /proc/PID/exe is ld.so."""
    engine = build("#include <unistd.h>\nint main(void) { return (int)sleep(300); }")
    facts = read_elf(engine)
    assert facts is not None and facts.loader is not None
    loader = tmp_path / "ld.so"
    shutil.copy(facts.loader, loader)
    words = (*REHEARSE, loader, engine)
    result = numamirror_run_until("shot.command == 'engine'", *words, env=shim_env)
    assert "for PID" in result.stderr and "(engine)" in result.stderr
    assert "it is loaded, and no engine that it knows runs in the program" in " ".join(
        result.stderr.split()
    )


def test_missing_and_foreign_shims_are_named_and_the_program_starts(
    tmp_path: Path, build: Build
) -> None:
    """Case S08."""
    engine = build(PROGRAM)
    foreign = tmp_path / "foreign.so"
    foreign.write_text("not a library")
    for shim in (tmp_path / "missing.so", foreign):
        env = environment(NUMAMIRROR_SHIM=str(shim))
        result = numamirror_run(*REHEARSE, engine, env=env)
        assert result.returncode == NOT_LOADED
        assert f"numamirror: {shim}: cannot be preloaded" in result.stderr
        assert "NOT mirrored" in result.stderr


def test_the_users_preload_and_ours_are_both_loaded(
    standin_shim: Path, shim_env: dict[str, str], tmp_path: Path
) -> None:
    """Case S06."""
    theirs = tmp_path / "libjemalloc.so"
    theirs.write_bytes(standin_shim.read_bytes())
    env = {**shim_env, "LD_PRELOAD": str(theirs)}
    shown = numamirror_run(*REHEARSE, "cat", "/proc/self/maps", env=env).stdout
    assert str(theirs) in shown and str(standin_shim) in shown
