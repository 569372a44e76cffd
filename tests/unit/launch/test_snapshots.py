"""Looks at the placement: when they are taken, and that they never cost more than 2 %."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from numamirror_cli.launch import snapshots as snapshots_module
from numamirror_cli.launch.child import Ending
from numamirror_cli.launch.session import Outcome
from numamirror_cli.launch.snapshots import Snapshots
from numamirror_cli.report.run_end import print_report
from tests.unit.conftest import MakeRoot
from tests.unit.launch.test_strategies import TWO_NODES, planned


@pytest.fixture(autouse=True)
def _needs_numa() -> None:
    if not Path("/proc/self/numa_maps").exists():
        pytest.skip("this kernel has no numa_maps")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look is waited for, however long it takes on a machine that does something else."""
    monkeypatch.setattr(snapshots_module, "_LAST_LOOK_PATIENCE", 300.0)


def test_a_look_shows_the_process_and_says_when_and_why() -> None:
    snapshots = Snapshots([0, 7], shim="")
    snapshots.ask("when replicas were built")
    assert snapshots.seconds_until_due() == 0
    snapshots.take(os.getpid(), seconds=3.2)
    snapshots.finish()
    shot = snapshots.latest
    assert shot is not None
    assert (shot.t, shot.cause, shot.pid) == (3.2, "when replicas were built", os.getpid())
    assert shot.placement.total.total > 1 << 20
    assert shot.placement.by_node[7].total == 0
    assert not shot.has_shim


def test_the_first_look_is_not_at_once_and_intervals_grow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Looks that cost nothing; the clock stands still meanwhile."""
    monkeypatch.setattr(Snapshots, "_look", lambda *words: None)
    clock = SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr(snapshots_module, "time", clock)
    snapshots = Snapshots([0], shim="")
    waits = []
    for _ in range(3):
        waits.append(snapshots.seconds_until_due())
        snapshots.take(os.getpid(), seconds=0)
        snapshots.finish()
    assert 1 < waits[0] < 2.5
    assert waits[0] < waits[1] < waits[2]


def test_after_a_look_there_is_none_for_fifty_times_its_cost_even_when_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look of three seconds, by a clock that moves at no other time."""
    clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now)

    def look(*words: object) -> None:
        clock.now += 3.0

    monkeypatch.setattr(snapshots_module, "time", clock)
    monkeypatch.setattr(Snapshots, "_shot", look)
    snapshots = Snapshots([0], shim="")
    snapshots.take(os.getpid(), seconds=0)
    snapshots.finish()
    snapshots.ask("when replicas were built")
    assert snapshots.seconds_until_due() == 150.0
    clock.now += 150.0
    assert snapshots.seconds_until_due() == 0.0


def test_a_process_that_is_gone_leaves_the_last_look_as_it_was() -> None:
    snapshots = Snapshots([0], shim="")
    snapshots.take(os.getpid(), seconds=1)
    snapshots.finish()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    snapshots.take(child, seconds=2)
    snapshots.finish()
    assert snapshots.latest is not None and snapshots.latest.t == 1
    assert snapshots.problem == ""


def test_a_look_that_fails_says_why_and_keeps_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshots = Snapshots([0], shim="")
    snapshots.take(os.getpid(), seconds=1)
    snapshots.finish()
    monkeypatch.setattr("numamirror_cli.memory.placement.add_up", None)
    snapshots.take(os.getpid(), seconds=2)
    snapshots.finish()
    assert snapshots.latest is not None and snapshots.latest.t == 1
    assert "a mistake of ours, please report it (TypeError: " in snapshots.problem


def test_a_loaded_shim_is_seen() -> None:
    libraries = Path("/proc/self/maps").read_text().split("\n")
    library = next(line.split()[-1] for line in libraries if "libc.so" in line)
    snapshots = Snapshots([0], shim=library)
    snapshots.take(os.getpid(), seconds=0)
    snapshots.finish()
    assert snapshots.latest is not None and snapshots.latest.has_shim


def test_the_report_says_why_it_has_no_table_of_placement(
    make_root: MakeRoot, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned(make_root(TWO_NODES), "mirror")
    why = "not allowed to read /proc/7/numa_maps"
    print_report(plan, Outcome(7, Ending(0, None), 9.0, snapshot_problem=why))
    assert f"Where its memory lay could not be seen: {why}\n" in capsys.readouterr().err
    print_report(plan, Outcome(7, Ending(0, None), 0.1))
    assert "could not be seen" not in capsys.readouterr().err
