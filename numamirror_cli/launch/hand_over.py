"""An engine that mirrors by itself is told the home node in its own terms. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from numamirror_cli.engine.own_mirror import OwnMirror
from numamirror_cli.launch.plan import Plan
from numamirror_cli.notice import Notice
from numamirror_cli.plan.layout import PREFER


def with_home_handed_over(plan: Plan, own: OwnMirror | None, environ: Mapping[str, str]) -> Plan:
    """The plan with what tells the engine its home node: a variable that the engine reads, where
    it has one that the user has not set; else the policy alone, which such engines keep."""
    if own is None or plan.home.node is None or plan.strategy != PREFER:
        return plan
    name, node = own.home_variable, str(plan.home.node)
    if not name:
        what = f"home node {node} is handed to the engine by the memory policy alone"
        note = Notice(what, "its libraries name no variable for it", level="info")
    elif theirs := environ.get(name):
        what = f"{name}={theirs} of your environment is kept"
        note = Notice(what, f"it names the engine's home node, and ours is {node}", level="info")
    else:
        plan = replace(plan, handed_over=((name, node),))
        note = Notice(f"home node {node} is handed to the engine as {name}={node}", level="info")
    return replace(plan, notes=(*plan.notes, note))
