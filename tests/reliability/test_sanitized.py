"""The shim built with sanitizers, in a real engine: no fault of ours is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from . import runs

BUILDS = runs.REPOSITORY / "build" / "sanitize"
# The engine's own: it is not instrumented, so that its barriers are unknown to TSan, and a Python
# program never gives back all its memory.
QUIET = {"ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "exitcode=0"}
SCENARIOS = ("two-threads", "free-beside", "fork", "close-and-reopen")


def sanitized(kind: str) -> Path:
    """The shim that `make test-native` has built with that sanitizer; skips where it has not."""
    shim = BUILDS / kind / "libnumamirror.so"
    if not shim.exists():
        pytest.skip(f"{shim.relative_to(runs.REPOSITORY)} is not built: make test-native")
    return shim


def run_with(shim: Path, command: tuple[str, ...], scratch: Path) -> runs.Run:
    variables = {**QUIET, "NUMAMIRROR_SHIM": str(shim)}
    run = runs.run_mirrored(scratch, command, *runs.REHEARSED, under=runs.steady(), env=variables)
    assert run.line == runs.plain_line(command)
    assert run.coverage == 1.0
    return run


@pytest.fixture
def scenario(
    request: pytest.FixtureRequest, libllama: Path, model: Path, second_model: Path
) -> tuple[str, ...]:
    words = ("--engine-dir", libllama, "--model", model, "--second-model", second_model, "--n", "2")
    return runs.program("lives.py", request.param, *words)


@pytest.mark.parametrize("scenario", SCENARIOS, indirect=True)
def test_address_and_undefined_behaviour_sanitizers_find_nothing(
    scenario: tuple[str, ...], tmp_path: Path
) -> None:
    run = run_with(sanitized("address"), scenario, tmp_path)
    assert "AddressSanitizer" not in run.stderr
    assert "runtime error:" not in run.stderr


# TSan gives up on a process that forks with threads.
@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s != "fork"], indirect=True)
def test_thread_sanitizer_finds_no_race_in_the_shim(
    scenario: tuple[str, ...], tmp_path: Path
) -> None:
    run = run_with(sanitized("thread"), scenario, tmp_path)
    assert [place for place in racing_places(run.stderr) if "libnumamirror.so" in place] == []


def racing_places(log: str) -> list[str]:
    """For each access that TSan reports, the innermost frame that is not TSan's own."""
    accesses = re.split(r"\n\s+(?:Previous )?(?:atomic )?(?:[Ww]rite|[Rr]ead) of size", log)[1:]
    frames = (re.findall(r"^\s+#\d+ (.*)", access, re.MULTILINE) for access in accesses)
    return [next((f for f in stack if "libtsan.so" not in f), "") for stack in frames]


def test_a_race_in_the_shim_would_be_seen_in_the_log() -> None:
    log = (
        "WARNING: ThreadSanitizer: data race (pid=1)\n"
        "  Write of size 8 at 0x7f by thread T1:\n"
        "    #0 memcpy x.inc:827 (libtsan.so.2+0x5dda6)\n"
        "    #1 nm_registry_refresh native/src/registry.c:1 (libnumamirror.so+0xa3)\n"
        "  Previous read of size 8 at 0x7f by thread T3:\n"
        "    #0 mul_mat <null> (libggml-cpu.so+0x1)\n"
    )
    first, second = racing_places(log)
    assert "libnumamirror.so" in first and "libggml-cpu.so" in second
