"""Steps that several guests run: what the kernel has, and our commands on it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from .vm import Step

HERE = Path(__file__).parent
SYSTEMD = "/lib/systemd/systemd"
NUMAMIRROR = (sys.executable, "-m", "numamirror_cli")
DROP_CACHES = "sync; echo 3 > /proc/sys/vm/drop_caches"

UNDER_POLICY = """
import os, sys
from numamirror_cli.memory.policy import parse_policy, set_policy
set_policy(parse_policy(sys.argv[1]))
os.execvp(sys.argv[2], sys.argv[2:])
"""


def topology() -> Step:
    return Step("topology", (*NUMAMIRROR, "topology", "--json"))


def observed_run(name: str, model: Path, *options: str, reads: bool = True) -> Step:
    """`numamirror run OPTIONS` with an engine on `model`, and what the kernel says of it.

    reads: also count what each thread reads, which takes two more generations.
    """
    command = (sys.executable, str(HERE / "observe_run.py"), str(model), *options)
    environment = {} if reads else {"OBSERVE_NO_READS": "1"}
    return Step(name, command, limit=600, environment=environment)


def run_true(name: str, *options: str) -> Step:
    """`numamirror run OPTIONS -- true`: what is decided before anything starts."""
    return Step(name, (*NUMAMIRROR, "run", *options, "--", "true"))


def plain_run(name: str, model: Path, threads: int) -> Step:
    """The same engine and model without us in the way."""
    script = str(HERE / "hold_engine.py")
    return Step(name, (sys.executable, script, str(model), str(threads)), limit=600)


def watched_threads(name: str, model: Path, threads: int, *options: str, numa: str = "") -> Step:
    """`numamirror run OPTIONS`, and on which nodes the engine's threads run.

    numa: llama.cpp's own --numa.
    """
    script = str(HERE / "pin_run.py")
    command = (sys.executable, script, str(model), str(threads), "--min-size", "1", *options)
    return Step(name, command, limit=600, environment={"HOLD_NUMA": numa})


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


def in_unit(name: str, properties: Mapping[str, str], step: Step) -> Step:
    """`step` as a unit of a systemd with those properties. systemd is process 1 of a PID namespace,
    as in a container, knows no other unit, and ends with this one."""
    unit = "/run/units"
    service = {"Type": "oneshot", **properties, "ExecStart": f"/bin/sh {unit}/start"}
    service |= {"StandardOutput": f"file:{unit}/stdout", "StandardError": f"file:{unit}/stderr"}
    lines = ["[Unit]", "DefaultDependencies=no", "SuccessAction=exit-force"]
    lines += ["FailureAction=exit-force", "[Service]"]
    lines += [f"{key}={value}" for key, value in service.items()]
    manager = ["unshare", "--pid", "--fork", "--mount", "--cgroup", "--mount-proc", "--kill-child"]
    manager += ["env", "container=guest", f"SYSTEMD_UNIT_PATH={unit}", SYSTEMD, "--system"]
    script = [
        f"test -x {SYSTEMD} || exit 77",
        f"rm -rf {unit}; mkdir -p {unit}",
        f"{{ export -p; echo exec {shlex.quote(shlex.join(step.command))}; }} > {unit}/start",
        f"printf '%s\\n' {shlex.join(lines)} > {unit}/step.service",
        f"{shlex.join([*manager, '--unit=step.service'])} > {unit}/manager 2>&1",
        f"cat {unit}/stdout; cat {unit}/stderr {unit}/manager >&2",
    ]
    return replace(step, name=name, command=("sh", "-c", "\n".join(script)))


def shell(name: str, script: str) -> Step:
    return Step(name, ("sh", "-c", script))


def drop_caches(name: str) -> Step:
    return shell(name, DROP_CACHES)


def under_policy(policy: str, step: Step) -> Step:
    """`step` with a memory policy, "interleave:0-1", that it inherits."""
    return replace(step, command=(sys.executable, "-c", UNDER_POLICY, policy, *step.command))


def page_cache_on_node(name: str, node: int, model: Path) -> Step:
    """All of the model's page cache on one node, whatever was there before."""
    read = f"{DROP_CACHES}; exec cat {shlex.quote(str(model))} > /dev/null"
    return under_policy(f"bind:{node}", shell(name, read))


def strategy_run(
    name: str, model: Path, *options: str, numa: str = "", threads: int | None = None
) -> Step:
    """One strategy and what its threads read; options: those of strategy_run.py, then of `run`.

    numa: llama.cpp's own --numa. threads: None for one per node.
    """
    script = (sys.executable, str(HERE / "strategy_run.py"), str(model))
    environment = {"HOLD_NUMA": numa, "OBSERVE_THREADS": str(threads or "")}
    return Step(name, (*script, *options), limit=600, environment=environment)
