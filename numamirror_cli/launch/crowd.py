"""Shard on a machine that does other things too: its fixed rows wait for the slowest core."""

from __future__ import annotations

from collections.abc import Iterator

from numamirror_cli.figures import percent
from numamirror_cli.launch.plan import Plan
from numamirror_cli.machine.busy import Busyness
from numamirror_cli.notice import Notice

# From here on other tasks would be met by an engine that uses all cores.
_WAITED, _STOLEN, _LOAD_PER_CPU = 0.1, 0.01, 0.5


def warn_of_crowd(plan: Plan, busyness: Busyness) -> Notice | None:
    """A warning where the strategy is shard and the machine is busy at the start.

    A thread whose core is taken keeps all others waiting: its rows are nobody else's.
    """
    found = list(_signs(busyness))
    if plan.strategy != "shard" or plan.rehearse or not found:
        return None
    return Notice(
        "this machine is busy, and shard follows the slowest core",
        ", ".join(found),
        "stop what else runs here, or use --strategy mirror",
    )


def _signs(busy: Busyness) -> Iterator[str]:
    if busy.waited is not None and busy.waited >= _WAITED:
        yield f"in {percent(busy.waited)} of the last 10 s a task waited for a CPU"
    elif busy.load is not None and busy.load >= _LOAD_PER_CPU * busy.cpus:
        yield f"the load average is {busy.load:.1f} on {busy.cpus} CPUs"
    if busy.stolen is not None and busy.stolen >= _STOLEN:
        yield f"the hypervisor gives {percent(busy.stolen)} of the CPUs' time to others"
