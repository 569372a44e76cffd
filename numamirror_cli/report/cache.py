"""The page cache of a model as text and as JSON (version 1, docs/json.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from numamirror_cli.figures import counted, percent
from numamirror_cli.memory.model_cache import ModelCache
from numamirror_cli.memory.page_cache import CacheState
from numamirror_cli.memory.policy import Policy
from numamirror_cli.memory.process import Process
from numamirror_cli.quoting import printable
from numamirror_cli.report.folded import Folded
from numamirror_cli.report.tables import plain_table
from numamirror_cli.report.units import part_of, size

SCHEMA = 1
# From this share on, a page or two that went elsewhere is not worth a message.
_NEARLY_ALL = 0.99


def render_cache(cache: ModelCache, evicted: int | None = None) -> RenderableType:
    """A line for the whole model, a table of nodes, and who has it mapped. evicted: bytes that were
    dropped before, None where that was not asked for."""
    first = printable(str(cache.states[0].path))
    parts = f" and {counted(len(cache.states) - 1, 'more part')}" if len(cache.states) > 1 else ""
    share = percent(cache.cached / cache.bytes) if cache.bytes else "0 %"
    lines: list[RenderableType] = [
        Text(f"{first}{parts}"),
        *([] if evicted is None else [Folded(f"{size(evicted)} dropped from the page cache")]),
        Folded(f"{part_of(cache.cached, cache.bytes)} in the page cache ({share})"),
    ]
    if cache.cached:
        lines += [Text(), _node_table(cache.by_node)]
    if cache.mapped_by:
        lines += [Text(), Text(f"Mapped by: {name_processes(cache.mapped_by)}")]
    return Group(*lines)


def left_text(cache: ModelCache) -> str:
    """What stayed in the page cache after it was to be dropped, and why; "" for nothing."""
    if not cache.cached:
        return ""
    if cache.mapped_by:
        why = f"mapped by {name_processes(cache.mapped_by)}"
    else:
        why = "locked, being written, or in use just now"
    return f"{size(cache.cached)} stay in the page cache: {why}"


def missed_text(cache: ModelCache, policy: Policy) -> str:
    """What did not go where it was read to, and why; "" when all but a trace did."""
    there = cache.on(policy.nodes) / cache.bytes if cache.bytes else 1.0
    if there >= _NEARLY_ALL:
        return ""
    return (
        f"only {percent(there)} went to {policy}: too little free memory there, or it was cached "
        "elsewhere and in use"
    )


def cache_json(
    cache: ModelCache, evicted: int | None = None, warmed: Policy | None = None
) -> dict[str, Any]:
    """The document of `cache --json`. evicted: bytes that were dropped; warmed: how it was read
    in; None where that was not done."""
    return {
        "schema": SCHEMA,
        "model": str(cache.states[0].path),
        "bytes": cache.bytes,
        "cached_bytes": cache.cached,
        "nodes": _keys_as_text(cache.by_node),
        "parts": [_part_json(state) for state in cache.states],
        "mapped_by": [{"pid": p.pid, "command": p.command} for p in cache.mapped_by],
        "evicted_bytes": evicted,
        "warmed": None if warmed is None else str(warmed),
    }


def name_processes(processes: Sequence[Process], most: int = 5) -> str:
    """As in "4711 (llama-server), 4713 (llama-bench)"; the first few of many."""
    named = ", ".join(f"{p.pid} ({printable(p.command)})" for p in processes[:most])
    return named + (f" and {len(processes) - most} more" if len(processes) > most else "")


def _node_table(by_node: Mapping[int, int]) -> RenderableType:
    total = sum(by_node.values()) or 1
    table = plain_table("Node", "Cached", "Share", right=("Node", "Cached", "Share"))
    for node, count in by_node.items():
        table.add_row(str(node), size(count), percent(count / total))
    return table


def _part_json(state: CacheState) -> dict[str, Any]:
    return {
        "path": str(state.path),
        "bytes": state.bytes,
        "cached_bytes": state.cached,
        "nodes": _keys_as_text(state.by_node),
        "sampled_pages": state.sampled,
    }


def _keys_as_text(counts: Mapping[int, int]) -> dict[str, int]:
    return {str(node): count for node, count in counts.items()}
