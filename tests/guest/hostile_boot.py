"""Two nodes, and what stands in the way there: refused calls, pages that do not move, cpusets, a
unit's own policy. One boot for all of it."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

from . import steps
from .vm import Step

HERE = Path(__file__).parent
REFUSE = HERE.parent / "reliability" / "refuse.py"

# The launcher is not under it: the policy for home, node 1, is what the engine inherits. Of the
# calls after the first, one would move a replica to its node and the others make it land there.
REFUSED = {
    "mbind": ("mbind=EPERM",),
    "mbind and move_pages": ("mbind=EPERM", "move_pages=EPERM"),
    "all": ("mbind=EPERM", "move_pages=EPERM", "set_mempolicy=EPERM", "sched_setaffinity=EPERM"),
}
# All on node 0 before the first graph, of which the machine's GPUs make node 1 the home.
IN_PLACE = {
    "registered": (),
    "in flight": (),
    "shared": (),
    "free": ("--no-heal",),
}
# Of weights whose first third is pinned on the wrong node: the probe, in thirds of them.
PROBES = {"of what is pinned": 1, "of all": 3}
# What containers and job schedulers hand out: one socket; one socket's CPUs and all memory; all
# CPUs, and memory of one socket.
CPUSETS = {
    "one node": {"cpuset.cpus": "0", "cpuset.mems": "0"},
    "far memory": {"cpuset.cpus": "0", "cpuset.mems": "0-1"},
    "far CPUs": {"cpuset.cpus": "0-1", "cpuset.mems": "0"},
}
UNIT = {"NUMAPolicy": "bind", "NUMAMask": "0"}


def refused_orders(model: Path) -> list[Step]:
    observed = steps.observed_run("run", model, "--min-size", "1", reads=False)
    return [with_refused(name, observed) for name in REFUSED]


def with_refused(name: str, step: Step) -> Step:
    under = shlex.join([sys.executable, str(REFUSE), *REFUSED[name], "--"])
    return replace(step, name=name, environment={**step.environment, "OBSERVE_UNDER": under})


def unmovable_orders(mapped: Path, repacked: Path, engine_dir: Path) -> list[Step]:
    """Of each, the page cache or the engine's own memory is on node 0 alone, and the kernel leaves
    it there."""
    orders = [steps.shell("no balancing", "echo 0 > /proc/sys/kernel/numa_balancing")]
    for how, options in IN_PLACE.items():
        path = repacked if how == "registered" else mapped
        engine = [sys.executable, str(HERE / "unmovable_engine.py"), str(path), str(engine_dir)]
        on_node_0 = ["numactl", "--membind=0"] if how == "registered" else []
        run = [*steps.NUMAMIRROR, "run", "--min-size", "1", *options, "--report", "none", "--"]
        warm = (
            f"sync; echo 3 > /proc/sys/vm/drop_caches; numactl --membind=0 cat {path} > /dev/null"
        )
        command = shlex.join([*run, *on_node_0, *engine, how])
        orders.append(replace(steps.shell(how, f"{warm}; exec {command}"), limit=600))
    return orders


def probe_orders(probing: Path) -> list[Step]:
    """The shim's own moving of pages, on memory that node 0 gave."""
    words = {f"probe {name}": thirds for name, thirds in PROBES.items()} | {"batch": 0}
    return [
        steps.under_policy("preferred:0", Step(name, (str(probing), str(thirds))))
        for name, thirds in words.items()
    ]


def cpuset_orders(model: Path) -> list[Step]:
    run = steps.observed_run("run", model, "--min-size", "1")
    home_1 = steps.run_true("home 1", "--home", "1")
    return [
        *(
            steps.in_cpuset(f"{name}, {step.name}", limits, step)
            for name, limits in CPUSETS.items()
            for step in (steps.topology(), run)
        ),
        steps.in_cpuset("one node, home 1", CPUSETS["one node"], home_1),
    ]


def unit_orders(model: Path) -> list[Step]:
    observed = steps.observed_run("run", model, "--min-size", "1", reads=False)
    return [steps.in_unit("unit", UNIT, observed)]


def orders(mapped: Path, repacked: Path, engine_dir: Path, probing: Path) -> list[Step]:
    return [
        *refused_orders(mapped),
        *unmovable_orders(mapped, repacked, engine_dir),
        *probe_orders(probing),
        *cpuset_orders(mapped),
        *unit_orders(mapped),
        replace(steps.plain_run("plain", mapped, threads=1), name="plain, one thread"),
        steps.plain_run("plain", mapped, threads=2),
    ]
