"""One process's memory as text and as JSON (version 1, docs/json.md)."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from numamirror_cli.figures import counted, percent
from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.machine.notes import name_nodes
from numamirror_cli.memory.buffers import ANONYMOUS, REPLICA, WEIGHTS, Buffer
from numamirror_cli.memory.inspection import Inspection
from numamirror_cli.memory.threads import Threads
from numamirror_cli.report.folded import Folded
from numamirror_cli.report.judgement import copies_text
from numamirror_cli.report.mirror import mirror_json, render_mirror
from numamirror_cli.report.placement import placement_json, render_placement
from numamirror_cli.report.tables import facts_table, plain_table
from numamirror_cli.report.units import size
from numamirror_cli.report.verdict import Verdict, render_verdicts, verdict_json

SCHEMA = 1
_BALANCING = {0: "0 (off)", 1: "1 (on)", 2: "2 (memory tiering)"}


def render_inspection(inspection: Inspection, verdicts: Sequence[Verdict]) -> RenderableType:
    """numastat's table first, then buffers, threads, settings, the mirror and the verdicts."""
    parts: list[RenderableType] = [
        render_placement(inspection.placement, inspection.process.pid, inspection.name),
        Text(),
        _buffer_table(inspection.buffers),
        Text(),
        facts_table(_facts(inspection)),
    ]
    if inspection.mirror is not None:
        parts += [Text(), Text("Mirror", style="bold"), render_mirror(inspection.mirror)]
    parts += [Text(), render_verdicts(verdicts)]
    return Group(*parts)


def inspection_json(inspection: Inspection, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The document of `inspect --json`. Amounts are bytes; keys that are node ids are strings."""
    mirror = inspection.mirror
    return {
        "schema": SCHEMA,
        "pid": inspection.process.pid,
        "command": inspection.name,
        "arguments": list(inspection.process.arguments),
        "policy": str(inspection.policy),
        "numa_balancing": inspection.numa_balancing,
        "cpuset": {
            "path": inspection.cpuset.path,
            "mems": _list_or_none(inspection.cpuset.mems),
        },
        "locked_bytes": inspection.unmovable.locked,
        "pinned_bytes": inspection.unmovable.pinned,
        "placement_bytes": placement_json(inspection.placement),
        "sample": _sample_json(inspection),
        "buffers": [_buffer_json(buffer) for buffer in inspection.buffers],
        "weights": _weights_json(inspection),
        "threads": _threads_json(inspection.threads),
        "mirror": None if mirror is None else mirror_json(mirror),
        "verdict": verdict_json(verdicts),
        "notes": list(inspection.notes),
        "seconds": round(inspection.seconds, 4),
    }


def _buffer_table(buffers: Sequence[Buffer]) -> RenderableType:
    table = plain_table("In memory", "On nodes", "What", right=("In memory",))
    for buffer in buffers:
        where = Folded(where_text(buffer.bytes_by_node))
        table.add_row(size(buffer.bytes), where, Folded(_what(buffer)))
    return table


def where_text(by_node: Mapping[int, int]) -> str:
    """Nodes with their shares, as in "1" for all on node 1, "0: 47 %, 1: 53 %"; "" for nothing."""
    total = sum(by_node.values())
    holding = {node: count for node, count in by_node.items() if count}
    if len(holding) == 1:
        return str(next(iter(holding)))
    return ", ".join(f"{node}: {percent(count / total)}" for node, count in holding.items())


def _what(buffer: Buffer) -> str:
    name = buffer.name
    details = list(_details(buffer))
    text = {
        # The directory is in --json, and seldom what one wants to know here.
        WEIGHTS: f"weights {name.rpartition('/')[2]}",
        REPLICA: f"replica for node {name.rpartition(':node')[2]}".removesuffix(" for node "),
        ANONYMOUS: f"anonymous {name}",
    }.get(buffer.kind, name)
    return f"{text} ({', '.join(details)})" if details else text


def _details(buffer: Buffer) -> Iterator[str]:
    if buffer.kind == WEIGHTS:
        whole = "" if buffer.faulted_share == 1 else f" of {size(buffer.mapped)}"
        yield f"{percent(buffer.faulted_share)}{whole} faulted in"
        if buffer.mapmax > 1:
            yield f"mapped by {buffer.mapmax} processes"
    if buffer.kind in (WEIGHTS, ANONYMOUS) and not buffer.policy.is_default:
        yield f"policy {buffer.policy}"
    if buffer.kind in (WEIGHTS, ANONYMOUS, REPLICA) and buffer.huge_bytes is not None:
        yield _pages_text(buffer.huge_bytes / buffer.bytes)
    if buffer.locked:
        yield "locked"
    if buffer.asked:
        yield f"estimated from {counted(buffer.asked, 'page')}"


def _pages_text(huge: float) -> str:
    """What address translations cost: huge pages save most of them."""
    return f"{percent(huge)} in huge pages" if huge else f"in {size(mmap.PAGESIZE)} pages"


def _facts(inspection: Inspection) -> Iterator[tuple[str, str]]:
    weights = inspection.weights
    if weights is not None and weights.copies is not None and inspection.mirror is None:
        yield "Copies", f"{copies_text(weights.copies).removesuffix(' copies')} of the weights"
    yield "Policy", str(inspection.policy)
    yield "Threads", _threads_text(inspection.threads)
    yield "Allowed", _allowed_text(inspection)
    if any((inspection.unmovable.locked, inspection.unmovable.pinned)):
        locked, pinned = size(inspection.unmovable.locked), size(inspection.unmovable.pinned)
        yield "Locked", f"{locked} (mlock); pinned for devices: {pinned}"
    if inspection.numa_balancing is not None:
        setting = _BALANCING.get(inspection.numa_balancing, str(inspection.numa_balancing))
        yield "Balancing", f"kernel.numa_balancing is {setting}"
    if inspection.sample is not None:
        yield (
            "Estimated",
            f"from {inspection.sample.asked} pages: a node's sum is right to "
            f"{size(inspection.sample.bound)} (95 %); --exact counts all",
        )
    for note in inspection.notes:
        yield "Note", note


def _allowed_text(inspection: Inspection) -> str:
    """Where its threads may run and where it may take memory, by affinity and cpuset."""
    threads = inspection.threads
    cpus = f"CPUs {threads.allowed_cpus}" if threads.allowed else "CPUs unknown"
    if threads.allowed_nodes:
        cpus += f" of {name_nodes(sorted(threads.allowed_nodes))}"
    mems = inspection.cpuset.mems
    return cpus if mems is None else f"{cpus}, memory of {name_nodes(sorted(mems))}"


def _threads_text(threads: Threads) -> str:
    if not threads.running:
        return f"{counted(threads.unplaced, 'thread')} on unknown nodes"
    return ", ".join(
        f"{count} on node {node}"
        + (f" ({threads.busy[node]} busy)" if node in threads.busy else "")
        for node, count in threads.running.items()
    )


def _threads_json(threads: Threads) -> dict[str, Any]:
    return {
        "running": _keys_as_text(threads.running),
        "busy": _keys_as_text(threads.busy),
        "computing": _keys_as_text(threads.computing),
        "allowed_cpus": threads.allowed_cpus,
        "allowed_nodes": format_list(threads.allowed_nodes),
        "unplaced": threads.unplaced,
    }


def _buffer_json(buffer: Buffer) -> dict[str, Any]:
    return {
        "kind": buffer.kind,
        "name": buffer.name,
        "bytes": _keys_as_text(buffer.bytes_by_node),
        "mapped_bytes": buffer.mapped,
        "policy": str(buffer.policy),
        "mapmax": buffer.mapmax,
        "huge_bytes": buffer.huge_bytes,
        "locked": buffer.locked,
        "asked_pages": buffer.asked or None,
    }


def _weights_json(inspection: Inspection) -> dict[str, Any] | None:
    weights = inspection.weights
    if weights is None:
        return None
    return {
        "path": weights.name or None,
        "bytes": _keys_as_text(weights.by_node),
        "one_copy_bytes": weights.one_copy,
        "copies": weights.copies,
        "faulted_share": weights.faulted_share,
        "own_mirror": weights.own_mirror,
    }


def _sample_json(inspection: Inspection) -> dict[str, int] | None:
    sample = inspection.sample
    return None if sample is None else {"pages": sample.asked, "bound_bytes": sample.bound}


def _list_or_none(members: frozenset[int] | None) -> str | None:
    return None if members is None else format_list(members)


def _keys_as_text(counts: Mapping[int, int]) -> dict[str, int]:
    return {str(node): count for node, count in counts.items()}
