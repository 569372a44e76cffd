"""Steps that several guests run: what the kernel has, and our commands on it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from .vm import Step

HERE = Path(__file__).parent
NUMAMIRROR = (sys.executable, "-m", "numamirror_cli")


def topology() -> Step:
    return Step("topology", (*NUMAMIRROR, "topology", "--json"))


def observed_run(name: str, model: Path, *options: str, reads: bool = True) -> Step:
    """`numamirror run OPTIONS` with an engine on `model`, and what the kernel says of it.

    reads: also count what each thread reads, which takes two more generations.
    """
    command = (sys.executable, str(HERE / "observe_run.py"), str(model), *options)
    environment = {} if reads else {"OBSERVE_NO_READS": "1"}
    return Step(name, command, limit=200, environment=environment)


def run_true(name: str, *options: str) -> Step:
    """`numamirror run OPTIONS -- true`: what is decided before anything starts."""
    return Step(name, (*NUMAMIRROR, "run", *options, "--", "true"))


def plain_run(name: str, model: Path, threads: int) -> Step:
    """The same engine and model without us in the way."""
    script = str(HERE / "hold_engine.py")
    return Step(name, (sys.executable, script, str(model), str(threads)), limit=120)


def in_cpuset(name: str, limits: Mapping[str, str], step: Step) -> Step:
    """`step` inside a cgroup of its own, whose cpuset files hold `limits`."""
    group = "/sys/fs/cgroup/" + name.replace(" ", "-").replace(",", "")
    writes = [f"echo {value} > {group}/{file}" for file, value in limits.items()]
    enter = [
        "echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control",
        f"mkdir {group}",
        *writes,
        f"echo $$ > {group}/cgroup.procs",
    ]
    script = " && ".join([*enter, f"exec {shlex.join(step.command)}"])
    return replace(step, name=name, command=("sh", "-c", script))


def shell(name: str, script: str) -> Step:
    return Step(name, ("sh", "-c", script))
