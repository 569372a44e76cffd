"""What a test asks of an observed run (observe_run.py)."""

from __future__ import annotations

from typing import Any

PAGE_BYTES = 4096
PagesByNode = dict[str, int]


def nodes_of(pages: PagesByNode) -> set[int]:
    """The nodes on which the kernel found any page that is in memory."""
    return {int(node) for node in pages if node != "absent"}


def replicas_by_policy(observation: dict[str, Any]) -> dict[str, set[int]]:
    """For each policy among the arenas ("prefer:0"), the nodes where their pages are."""
    found: dict[str, set[int]] = {}
    for arena in observation["replicas"]:
        found.setdefault(arena["policy"], set()).update(nodes_of(arena["pages"]))
    return found


def pages_in_memory(observation: dict[str, Any]) -> int:
    """Pages of all replicas that are in memory."""
    return sum(
        count
        for arena in observation["replicas"]
        for node, count in arena["pages"].items()
        if node != "absent"
    )
