"""The child's environment: NUMAMIRROR_* as in docs/protocol.md, and LD_PRELOAD."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from numamirror_cli.engine.preload import extended_preload
from numamirror_cli.launch.copies import Copy
from numamirror_cli.launch.plan import Plan
from numamirror_cli.machine.cpulist import format_list

ABI = "1"

# All that the table names but NUMAMIRROR_LOG, which is the user's own wish: what another launcher
# around us set must not reach our child.
_OURS = (
    "NUMAMIRROR_ABI",
    "NUMAMIRROR_COPIES",
    "NUMAMIRROR_HOME_NODE",
    "NUMAMIRROR_REHEARSE",
    "NUMAMIRROR_STRATEGY",
    "NUMAMIRROR_PIN",
    "NUMAMIRROR_CORES",
    "NUMAMIRROR_COPY_HOME",
    "NUMAMIRROR_HEAL",
    "NUMAMIRROR_MIN_BYTES",
    "NUMAMIRROR_BUDGET_BYTES",
    "NUMAMIRROR_ADAPT",
    "NUMAMIRROR_EVENTS",
)


def planned_environment(plan: Plan, events: str) -> dict[str, str]:
    """The NUMAMIRROR_ variables of that plan, none when nothing is preloaded; or what is handed to
    an engine that mirrors by itself.

    events: name of the event socket as the table spells it ("@..."), or "" for none.
    """
    if not plan.preload:
        return dict(plan.handed_over)
    variables = {"NUMAMIRROR_ABI": ABI, "NUMAMIRROR_MIN_BYTES": str(plan.min_bytes)}
    if plan.rehearse:
        variables["NUMAMIRROR_REHEARSE"] = str(plan.rehearse)
    else:
        variables["NUMAMIRROR_COPIES"] = spell_copies(plan.copies)
    if plan.home.node is not None:
        variables["NUMAMIRROR_HOME_NODE"] = str(plan.home.node)
    if plan.strategy in ("shard", "interleave", "observe"):
        variables["NUMAMIRROR_STRATEGY"] = plan.strategy
    if plan.copy_home:
        variables["NUMAMIRROR_COPY_HOME"] = "1"
    if plan.pin:
        variables["NUMAMIRROR_PIN"] = "1"
        if cores := frozenset(cpu for copy in plan.copies for cpu in copy.cores):
            variables["NUMAMIRROR_CORES"] = format_list(cores)
    if not plan.heal:
        variables["NUMAMIRROR_HEAL"] = "0"
    if plan.budget_bytes is not None:
        variables["NUMAMIRROR_BUDGET_BYTES"] = str(plan.budget_bytes)
    if plan.adapt:
        variables["NUMAMIRROR_ADAPT"] = str(plan.adapt)
    if events:
        variables["NUMAMIRROR_EVENTS"] = events
    return variables


def child_environment(plan: Plan, events: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of the child. LD_PRELOAD keeps what the user put there; all that is
    not ours, LD_LIBRARY_PATH included, stays as it is."""
    child = {name: value for name, value in environ.items() if name not in _OURS}
    child.update(planned_environment(plan, events))
    if plan.preload:
        child["LD_PRELOAD"] = extended_preload(environ, plan.preload)
    return child


def spell_copies(copies: Iterable[Copy]) -> str:
    """NUMAMIRROR_COPIES: "0=0-7;1=8-15", nodes before "=", the CPUs that read there after it."""
    return ";".join(f"{','.join(map(str, copy.nodes))}={format_list(copy.cpus)}" for copy in copies)
