"""`run --strategy shard` on a machine that does other things too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from numamirror_cli.launch.crowd import warn_of_crowd
from numamirror_cli.launch.plan import Circumstances, Plan, Wishes, make_plan
from numamirror_cli.machine.busy import Busyness, read_busyness, read_cpu_times
from numamirror_cli.machine.read import read_machine
from tests.unit.conftest import MakeRoot, write
from tests.unit.launch.test_strategies import REACHED, TWO_NODES

IDLE = "cpu  100 0 100 9800 0 0 0 0 0 0\ncpu0 50 0 50 4900 0 0 0 0\ncpu1 50 0 50 4900 0 0 0 0\n"
# 100 ticks later; the fields after steal are parts of the first two.
STOLEN = "cpu  140 0 100 9840 0 0 0 20 30 0\ncpu0 1 0 0 0 0 0 0 0\ncpu1 1 0 0 0 0 0 0 0\n"


@pytest.fixture
def sharded(make_root: MakeRoot) -> Plan:
    machine = read_machine(make_root(TWO_NODES), environ={})
    plan = make_plan(machine, Wishes(), Circumstances(None, REACHED))
    return replace(plan, strategy="shard")


def machine_that(root: Path, *, load: str = "0.10", waited: str = "0.00") -> Path:
    write(root / "proc/stat", IDLE)
    write(root / "proc/loadavg", f"{load} 0.10 0.10 1/200 4711\n")
    write(root / "proc/pressure/cpu", f"some avg10={waited} avg60=0.00 avg300=0.00 total=9\n")
    return root


def test_an_idle_machine_is_not_warned_of(tmp_path: Path, sharded: Plan) -> None:
    root = machine_that(tmp_path)
    assert read_busyness(read_cpu_times(root), root) == Busyness(2, 0.1, 0.0, None)
    assert warn_of_crowd(sharded, read_busyness(None, root)) is None


def test_tasks_that_wait_for_a_cpu_are_warned_of(tmp_path: Path, sharded: Plan) -> None:
    notice = warn_of_crowd(sharded, read_busyness(None, machine_that(tmp_path, waited="34.50")))
    assert notice is not None
    assert "slowest core" in notice.what
    assert notice.why == "in 34 % of the last 10 s a task waited for a CPU"


def test_without_pressure_figures_the_load_average_is_asked(tmp_path: Path, sharded: Plan) -> None:
    root = machine_that(tmp_path, load="1.50")
    (root / "proc/pressure/cpu").unlink()
    notice = warn_of_crowd(sharded, read_busyness(None, root))
    assert notice is not None
    assert notice.why == "the load average is 1.5 on 2 CPUs"


def test_time_that_the_hypervisor_takes_is_warned_of(tmp_path: Path, sharded: Plan) -> None:
    root = machine_that(tmp_path)
    before = read_cpu_times(root)
    (root / "proc/stat").write_text(STOLEN)
    notice = warn_of_crowd(sharded, read_busyness(before, root))
    assert notice is not None
    assert notice.why == "the hypervisor gives 20 % of the CPUs' time to others"


def test_other_strategies_do_not_care(tmp_path: Path, sharded: Plan) -> None:
    busy = read_busyness(None, machine_that(tmp_path, waited="90.00"))
    assert warn_of_crowd(replace(sharded, strategy="mirror"), busy) is None


def test_a_rehearsal_makes_nothing_faster_and_warns_of_nothing(
    tmp_path: Path, sharded: Plan
) -> None:
    busy = read_busyness(None, machine_that(tmp_path, waited="90.00"))
    assert warn_of_crowd(sharded, busy) is not None
    assert warn_of_crowd(replace(sharded, rehearse=2), busy) is None


@pytest.mark.parametrize("text", ["", "cpu\n", "cpu  1 2 x\n", "\0\xff", "cpu  1 2 3\ncpu0 1\n"])
def test_files_that_are_not_as_expected_say_nothing(
    tmp_path: Path, sharded: Plan, text: str
) -> None:
    root = machine_that(tmp_path)
    for file in ("stat", "loadavg", "pressure/cpu"):
        (root / "proc" / file).write_text(text)
    busy = read_busyness(read_cpu_times(root), root)
    assert (busy.load, busy.waited, busy.stolen) == (None, None, None)
    assert warn_of_crowd(sharded, busy) is None
