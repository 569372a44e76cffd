"""kill -9 of the engine, of the launcher, of both: what runs on, and what is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from . import runs

PATIENCE = 300.0


@dataclass
class Held:
    """A launcher and its engine, which has generated once and stays."""

    launcher: subprocess.Popen[str]
    engine: int
    line: Any
    record: Path
    scratch: Path
    unborn: frozenset[str]

    def generate_again(self) -> Any:
        assert self.launcher.stdin is not None and self.launcher.stdout is not None
        print("again", file=self.launcher.stdin, flush=True)
        return json.loads(self.launcher.stdout.readline())

    def is_recorded(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.record.read_text())
        return document


@pytest.fixture
def held(libllama: Path, model: Path, tmp_path: Path) -> Iterator[Held]:
    before = frozenset(shared_memory())
    scratch, record = tmp_path / "scratch", tmp_path / "run.json"
    scratch.mkdir()
    command = [*runs.NUMAMIRROR, "--report", "none", "--json", str(record), *runs.REHEARSED, "--"]
    command += runs.program("lives.py", "stay", "--engine-dir", libllama, "--model", model)
    launcher = subprocess.Popen(
        command,
        cwd=runs.REPOSITORY,
        env=runs.environment({"TMPDIR": str(scratch)}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert launcher.stdout is not None
    engine = int(launcher.stdout.readline())
    line = json.loads(launcher.stdout.readline())
    yield Held(launcher, engine, line, record, scratch, before)
    for pid in (launcher.pid, engine):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    launcher.wait()


def shared_memory() -> set[str]:
    return {path.name for path in Path("/dev/shm").iterdir()}


def sockets_of(pid: int) -> list[str]:
    """Abstract sockets that carry that launcher's name (proc(5), /proc/net/unix)."""
    name = f"@numamirror-{pid}-"
    return [line for line in Path("/proc/net/unix").read_text().splitlines() if name in line]


def is_gone(pid: int) -> bool:
    """Ended and reaped, or reaped by nobody because the machine's process 1 does not."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
        time.sleep(0.05)
    return False


def assert_nothing_is_left(held: Held) -> None:
    assert sockets_of(held.launcher.pid) == []
    assert list(held.scratch.iterdir()) == []
    assert not [name for name in shared_memory() - held.unborn if "numamirror" in name]


def test_a_killed_engine_is_reaped_and_its_page_is_read_to_the_end(held: Held) -> None:
    assert len(sockets_of(held.launcher.pid)) > 0
    os.kill(held.engine, signal.SIGKILL)
    assert held.launcher.wait(PATIENCE) == 128 + signal.SIGKILL
    assert not Path(f"/proc/{held.engine}").exists()  # no zombie
    recorded = held.is_recorded()
    assert recorded["child"]["signal"] == signal.SIGKILL
    assert recorded["mirror"]["coverage"] == 1.0
    assert_nothing_is_left(held)


def test_an_engine_outlives_its_killed_launcher_and_computes_on(held: Held) -> None:
    held.launcher.kill()
    held.launcher.wait()
    assert held.generate_again() == held.line
    assert sockets_of(held.launcher.pid) == []
    page = inspected(held.engine)
    assert page["mirror"]["coverage"] == 1.0
    assert held.launcher.stdin is not None
    held.launcher.stdin.close()
    assert is_gone(held.engine)
    assert_nothing_is_left(held)


def inspected(pid: int) -> dict[str, Any]:
    command = [*runs.NUMAMIRROR[:-1], "inspect", "--json", str(pid)]
    done = runs.run(command)
    assert done.code == 0, done.stderr
    document: dict[str, Any] = json.loads(done.printed)
    return document


@pytest.mark.parametrize("launcher_first", [True, False])
def test_both_killed_leave_nothing(held: Held, launcher_first: bool) -> None:
    first, second = held.launcher.pid, held.engine
    for pid in (first, second) if launcher_first else (second, first):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    held.launcher.wait()
    assert is_gone(held.engine)
    assert_nothing_is_left(held)


@pytest.mark.parametrize("moment", ["hello", "build", "replica", "coverage"])
def test_an_engine_killed_at_any_moment_leaves_a_page_that_can_be_read(
    moment: str, engine: tuple[str, ...], tmp_path: Path
) -> None:
    """When the shim is there, when a copy is begun, when one is done, and when all are."""
    killed = runs.program("kill_at.py", moment, *engine)
    run = runs.run_mirrored(tmp_path, killed, *runs.REHEARSED)
    assert run.code == 128 + signal.SIGKILL, run.stderr
    assert "Traceback" not in run.stderr
    mirror = run.record["mirror"]
    assert mirror is None or 0.0 <= mirror["coverage"] <= 1.0
    assert moment != "coverage" or run.coverage == 1.0
    assert len(run.record["verdict"]) >= 1
