"""`numamirror run` as on a machine with two nodes, for machines that have one.

    two_copies.py [RUN-OPTION...] -- COMMAND...

Node 0 gets two copies of the weights, each read by half of the CPUs. All else is the launcher and
the shim as they are: every policy call is made, and the kernel is asked where the pages landed.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from numamirror_cli import cli
from numamirror_cli.engine.shim import find_shim
from numamirror_cli.launch import preflight
from numamirror_cli.launch.copies import Copy
from numamirror_cli.launch.plan import Circumstances, Plan, Wishes, make_plan
from numamirror_cli.machine.model import Machine
from numamirror_cli.memory.policy import Policy


def plan_of_two(machine: Machine, wishes: Wishes, circumstances: Circumstances) -> Plan:
    plan = make_plan(machine, wishes, circumstances)
    cpus = sorted(os.sched_getaffinity(0))
    shim = find_shim(os.environ)
    caller = circumstances.caller_policy
    return replace(
        plan,
        strategy="mirror",
        reason="two copies on one node, for a test",
        copies=(Copy((0,), frozenset(cpus[::2])), Copy((0,), frozenset(cpus[1::2]))),
        preload=(*shim.before, str(shim.path)),
        policy=Policy("preferred", frozenset({0})) if caller and caller.is_default else None,
    )


def main() -> None:
    preflight.make_plan = plan_of_two
    sys.argv[1:1] = ["run", "--strategy", "mirror"]
    cli.main()


if __name__ == "__main__":
    main()
