"""In whatever shape an engine is started: what `check` says beforehand is what then happens."""

from __future__ import annotations

import functools
import json
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import stand_in
from rig import REPOSITORY, Engine, gemm_bytes_in, numamirror_run, run_mirrored
from test_engines_check import check
from test_engines_mirror import TWO_REPLICAS
from test_engines_rpc import run_with_mirrored_workers
from test_engines_static import NO_NEW_CODE
from test_engines_together import both_mirrored
from test_engines_upload import MODEL as UPLOADED
from test_engines_upload import uploading

NOBODY = 65534
Command = Sequence[object]


def happened(mirror: dict[str, Any]) -> str:
    """The verdict that would have been right."""
    mirrored, everything = mirror.get("mirrored_bytes", 0), mirror.get("gemm_bytes", 0)
    if mirrored == 0:
        return "policy only"
    return "full" if mirrored == everything else "dense only"


def plain(directory: Path) -> Command:
    return [stand_in.program(stand_in.library(directory))]


def script(directory: Path) -> Command:
    """A start script, as packages have them."""
    path = directory / "start"
    path.write_text(f'#!/bin/sh\nexec "{plain(directory)[0]}" "$@"\n')
    path.chmod(0o755)
    return [path]


def env_script(directory: Path) -> Command:
    path = directory / "start"
    path.write_text(f"#!/usr/bin/env -S A=1 {plain(directory)[0]}\n")
    path.chmod(0o755)
    return [path]


def emptied(directory: Path) -> Command:
    return ["env", "-i", *plain(directory)]


def bundled_loader(directory: Path) -> Command:
    """A loader of its own beside the program, as AppImages and portable builds have it."""
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    if platform.machine() != "x86_64" or not loader.exists():
        pytest.skip(f"there is no {loader} here")
    copy = shutil.copy(loader, directory / "ld.so")
    return [copy, "--library-path", directory, *plain(directory)]


def python_module(directory: Path) -> Command:
    """python -m PACKAGE, whose library is inside the package."""
    package = directory / "engine"
    package.mkdir()
    library = stand_in.module(stand_in.library(package))
    (package / "__init__.py").write_text("")
    load = f"import ctypes\nctypes.CDLL({str(library)!r}).main()\n"
    (package / "__main__.py").write_text(load)
    return ["env", f"PYTHONPATH={directory}", sys.executable, "-m", "engine"]


def bound_inside(directory: Path) -> Command:
    return [stand_in.program(stand_in.library(directory, "-Wl,-Bsymbolic"))]


def kernels_bound_inside(directory: Path) -> Command:
    engine = stand_in.library(directory, is_bound=lambda name: name.startswith("ggml_vec_dot_"))
    return [stand_in.program(engine)]


def inside(directory: Path, *flags: str) -> Command:
    if platform.machine() != "x86_64":
        pytest.skip("the shim leads calls inside a program to itself on x86-64 alone")
    return [stand_in.inside_program(directory, *flags)]


def inside_with_a_strange_instruction(directory: Path) -> Command:
    """In a function that calls the engine, so that it cannot be decoded to the end."""
    return inside(directory, "-DSTAND_IN_STRANGE")


def inside_with_a_call_compiled_in(directory: Path) -> Command:
    return inside(directory, "-DSTAND_IN_COMPILED_IN")


def lacking_a_function(directory: Path) -> Command:
    return [stand_in.program(stand_in.library(directory, "-Dggml_graph_node=hidden"))]


def setuid(_: Path) -> Command:
    if os.geteuid() != 0:
        pytest.skip("giving a program to another user needs root")
    program = program_for_all()
    os.chown(program, NOBODY, NOBODY)
    program.chmod(0o755 | stat.S_ISUID)
    return [program]


@functools.cache
def open_directory() -> tempfile.TemporaryDirectory[str]:
    """pytest keeps its own for their owner, and closes them again when another session begins."""
    directory = tempfile.TemporaryDirectory(prefix="numamirror-for-all")
    Path(directory.name).chmod(0o711)
    return directory


def place_for_all() -> Path:
    """A new directory that others may come to, where files can raise what a process may do."""
    place = Path(tempfile.mkdtemp(dir=open_directory().name))
    place.chmod(0o711)
    if not all(parent.stat().st_mode & 0o001 for parent in place.parents):
        pytest.skip(f"others may not come to {place}: set TMPDIR to another place")
    if os.statvfs(place).f_flag & os.ST_NOSUID:
        pytest.skip(f"{place} is mounted nosuid: set TMPDIR to another place")
    if "NoNewPrivs:\t1" in Path("/proc/self/status").read_text():
        pytest.skip("no file raises what this process may do (no_new_privs)")
    return place


def program_for_all() -> Path:
    """plain() there, with its library, whatever the umask."""
    place = place_for_all()
    (program,) = plain(place)
    for file in place.iterdir():
        file.chmod(0o755)
    return Path(str(program))


def musl(directory: Path) -> Command:
    if shutil.which("musl-gcc") is None:
        pytest.skip("musl-gcc is not installed (Debian: musl-tools)")
    return [stand_in.program(stand_in.library(directory, cc="musl-gcc"), cc="musl-gcc")]


def without_engine(_: Path) -> Command:
    return ["/bin/true"]


SHAPES: dict[Callable[[Path], Command], str] = {
    plain: "full",
    script: "full",
    env_script: "full",
    bundled_loader: "full",
    python_module: "full",
    inside: "full",
    kernels_bound_inside: "dense only",
    inside_with_a_strange_instruction: "policy only",
    inside_with_a_call_compiled_in: "policy only",
    emptied: "policy only",
    bound_inside: "policy only",
    lacking_a_function: "policy only",
    setuid: "policy only",
    musl: "policy only",
    without_engine: "policy only",
}


@pytest.mark.parametrize(
    ("shape", "level"), SHAPES.items(), ids=lambda v: getattr(v, "__name__", "")
)
def test_the_verdict_on_a_command_is_what_then_happens(
    shape: Callable[[Path], Command], level: str, tmp_path: Path
) -> None:
    command = shape(tmp_path)
    said = check(*map(str, command))["verdict"]["level"]
    _, mirror = stand_in.run(tmp_path, command)
    assert (said, happened(mirror)) == (level, level)


# What a container's filter does, and a unit's: of each call of ours, and the verdict.
FILTERS = {
    ("mbind=EPERM", "set_mempolicy=EPERM", "get_mempolicy=EPERM", "move_pages=EPERM"): "full",
    ("socket=EPERM", "memfd_create=EPERM"): "full",
    ("mbind=KILL",): "policy only",
    ("get_mempolicy=EPERM", "memfd_create=KILL"): "policy only",
}


def filtered(*calls: str) -> tuple[str, ...]:
    """What starts a command under a filter that does that."""
    under = (sys.executable, str(REPOSITORY / "tests/reliability/refuse.py"), *calls, "--")
    tried = subprocess.run([*under, "/bin/true"], capture_output=True, text=True, check=False)
    if "no seccomp filter" in tried.stderr:
        pytest.skip("this kernel installs no seccomp filter")
    return under


@pytest.mark.parametrize(("calls", "level"), FILTERS.items(), ids=lambda v: "".join(v))
def test_the_verdict_under_a_filter_of_system_calls_is_what_then_happens(
    calls: tuple[str, ...], level: str, tmp_path: Path
) -> None:
    under = filtered(*calls)
    command = plain(tmp_path)
    said = check(*map(str, command), under=under)
    log, mirror = stand_in.run(tmp_path, command, under)
    assert (said["verdict"]["level"], happened(mirror)) == (level, level)
    asked = dict(call.split("=") for call in calls)
    assert set(said["refused_calls"]) >= {call for call in asked if asked[call] == "EPERM"}
    deadly = [call for call in asked if asked[call] == "KILL"]
    assert said["deadly_calls"] == deadly
    assert ("a seccomp filter kills for " in log) == bool(deadly)


def test_check_is_not_killed_itself_where_it_looks_into_a_program(tmp_path: Path) -> None:
    under = filtered("mbind=KILL")
    verdict = check(*map(str, inside(tmp_path)), under=under)["verdict"]
    assert "a seccomp filter kills for mbind" in verdict["why"]


def test_the_verdict_where_no_code_may_change_is_what_then_happens(tmp_path: Path) -> None:
    wrapper = tmp_path / "no_new_code.py"
    wrapper.write_text(NO_NEW_CODE)
    under = (sys.executable, str(wrapper))
    if subprocess.run([*under, "/bin/true"], check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("this kernel has no PR_SET_MDWE (Linux 6.3)")
    command = inside(tmp_path)
    verdict = check(*map(str, command), under=under)["verdict"]
    log, mirror = stand_in.run(tmp_path, command, under)
    assert (verdict["level"], happened(mirror)) == ("policy only", "policy only")
    assert "allows no new code" in verdict["why"] and verdict["why"] in log


def test_the_verdict_on_a_running_process_is_what_happened_to_it(tmp_path: Path) -> None:
    report = tmp_path / "run.json"
    command = [*numamirror_run(report, "--rehearse", "2"), *map(str, plain(tmp_path)), "wait"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=REPOSITORY, text=True, **pipes) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == "ready\n"
        said = check(child_of(launcher.pid, "program"))
        launcher.communicate("")
    assert said["preload"]["honoured"]
    assert said["verdict"]["level"] == happened(json.loads(report.read_text())["mirror"]) == "full"


def child_of(parent: int, name: str) -> str:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return next(c for c in children if Path(f"/proc/{c}/comm").read_text().strip() == name)


def test_a_program_with_file_capabilities_drops_the_shim_as_said() -> None:
    """Only for who is not root: so both are asked as nobody."""
    if os.geteuid() != 0 or shutil.which("setcap") is None or shutil.which("setpriv") is None:
        pytest.skip("needs root, setcap (Debian: libcap2-bin) and setpriv")
    program = program_for_all()
    if subprocess.run(["setcap", "cap_net_raw+ep", program], check=False).returncode != 0:
        pytest.skip("files get no capabilities here")
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    ours = [*as_nobody, sys.executable, "-m", "numamirror_cli"]
    if subprocess.run([*ours, "--version"], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"another user cannot run {sys.executable}")
    check = [*ours, "check", "--json", "--", str(program)]
    verdict = json.loads(subprocess.run(check, capture_output=True, text=True).stdout)["verdict"]
    assert verdict["level"] == "policy only" and "file capabilities" in verdict["why"]
    run = [*ours, "run", "--rehearse", "2", "--", str(program)]
    said = subprocess.run(run, capture_output=True, text=True).stderr
    assert "not mirrored: the shim cannot be loaded" in " ".join(said.split())


# ---- real engines beyond those of test_engines_check.py, in runs that others share ----


def test_the_verdict_on_whisper_is_what_then_happens(whisper: Engine) -> None:
    assert check(*whisper.checked("whisper"))["verdict"]["level"] == "full"
    mirror = run_mirrored(whisper, "whisper", TWO_REPLICAS, poisoned=True).mirror
    assert mirror["mirrored_bytes"] == gemm_bytes_in("whisper")


def test_the_verdict_on_two_engines_in_one_process_is_what_then_happens(
    two_engines: Engine,
) -> None:
    found = check(*two_engines.command("moe-Q8_0"))
    assert [engine["name"] for engine in found["engines"]] == ["llama.cpp", "ik_llama.cpp"]
    assert found["verdict"]["level"] == "full"
    assert both_mirrored(two_engines).mirror["coverage"] == 1.0


def test_the_verdict_on_a_worker_is_what_then_happens(llama_rpc: Engine) -> None:
    assert llama_rpc.directory is not None
    worker = str(llama_rpc.directory() / "ggml-rpc-server")
    assert check(worker, "--port", "50052")["verdict"]["level"] == "full"
    _, mirrors, _ = run_with_mirrored_workers("moe-Q8_0")
    assert [mirror["coverage"] for mirror in mirrors] == [1.0, 1.0]


def test_the_verdict_on_uploads_is_what_then_happens(llama_upload: Engine) -> None:
    said = check(*llama_upload.checked(UPLOADED))["verdict"]["level"]
    mirror = uploading("1").mirror
    assert said == "full" and mirror["mirrored_bytes"] == mirror["gemm_bytes"] > 0
