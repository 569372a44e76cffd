"""The machine as tables and as JSON (version 1, docs/json.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.machine.llama import MOST_NODES, LlamaView, llama_view
from numamirror_cli.machine.model import Gpu, Machine, Node
from numamirror_cli.machine.notes import name_nodes
from numamirror_cli.report.gpu_names import short_name
from numamirror_cli.report.lists import CommaList
from numamirror_cli.report.roles import role
from numamirror_cli.report.tables import facts_table, plain_table
from numamirror_cli.report.units import size

# Columns of the distance table that fit in 80 characters.
DISTANCES_PER_ROW = 14


def render_topology(machine: Machine) -> RenderableType:
    """Tables of nodes, distances and GPUs, then home, sockets and notes; for 80 columns and up."""
    parts: list[RenderableType] = []
    if machine.numa:
        parts += [_node_table(machine), *_distance_tables(machine.nodes)]
    if machine.gpus:
        parts.append(_gpu_table(machine.gpus))
    parts.append(facts_table(_facts(machine)))
    return Group(*_with_blank_lines(parts))


def _with_blank_lines(parts: Sequence[RenderableType]) -> list[RenderableType]:
    spaced: list[RenderableType] = []
    for part in parts:
        spaced += [Text(), part] if spaced else [part]
    return spaced


def _node_table(machine: Machine) -> Table:
    numbers = ("Node", "Cores", "Memory", "Free")
    table = plain_table("Node", "CPUs", "Cores", "Memory", "Free", "Role", right=numbers)
    for node in machine.nodes:
        is_home = node.id == machine.home.node
        table.add_row(
            str(node.id),
            CommaList(_cpus(node), narrowest=20),
            str(len(node.cores)) if node.cores else "",
            _amount(node.mem_total),
            _amount(node.mem_free) if node.mem_total else "",
            role(node, machine),
            style="bold" if is_home else "",
        )
    return table


def _cpus(node: Node) -> str:
    """All CPUs, and on a line of its own which of them are allowed, if not all are."""
    cpus = format_list(node.cpus)
    if node.cpus == node.allowed_cpus:
        return cpus or "none"
    return f"{cpus}\nallowed: {format_list(node.allowed_cpus) or 'none'}"


def _amount(count: int | None) -> str:
    """The word none is what a node without memory has; unknown is what the kernel does not say."""
    if count is None:
        return "unknown"
    return size(count) if count else "none"


def _distance_tables(nodes: Sequence[Node]) -> list[RenderableType]:
    """The SLIT, reader in the row; folded where a row does not fit."""
    if len(nodes) < 2 or not any(node.distances for node in nodes):
        return []
    tables: list[RenderableType] = []
    for first in range(0, len(nodes), DISTANCES_PER_ROW):
        shown = [str(node.id) for node in nodes[first : first + DISTANCES_PER_ROW]]
        table = plain_table("Distance", *shown, right=shown)
        for node in nodes:
            cells = [_distance(node.distances.get(int(other))) for other in shown]
            table.add_row(f"node {node.id:>3}", *cells)
        tables.append(table)
    return tables


def _distance(distance: int | None) -> Text:
    if distance is None:
        return Text("?")
    return Text(f"{distance:3}", style="green" if distance == 10 else "")


def _gpu_table(gpus: Sequence[Gpu]) -> Table:
    table = plain_table("PCI device", "Name", "Node", "Vote for home", right=("Node",))
    for gpu in gpus:
        node = "?" if gpu.node is None else str(gpu.node)
        table.add_row(
            gpu.address, short_name(gpu), node, gpu.reason, style="" if gpu.votes else "dim"
        )
    return table


def _facts(machine: Machine) -> Iterator[tuple[str, str]]:
    """Home, sockets, llama.cpp's view and notes, one sentence each."""
    if machine.home.node is not None:
        yield "Home", home_sentence(machine)
    if len(machine.nodes) > 1:
        yield "Sockets", _sockets_sentence(machine)
    if siblings := _first_siblings(machine):
        yield "SMT", _smt_sentence(siblings)
    if len(machine.nodes) > 1:
        yield "llama.cpp", llama_sentence(llama_view(machine))
    for index, note in enumerate(machine.notes):
        yield "" if index else "Notes", note


def home_sentence(machine: Machine) -> str:
    """ "node 1: 2 of 2 GPUs are there (0000:82:01.0, 0000:82:02.0)"."""
    return f"node {machine.home.node}: {machine.home.reason}"


def _sockets_sentence(machine: Machine) -> str:
    return "; ".join(
        f"{index}: {name_nodes(socket)}" for index, socket in enumerate(machine.sockets)
    )


def _first_siblings(machine: Machine) -> frozenset[int]:
    """The CPUs of the first core that has more than one."""
    shared = (core for node in machine.nodes for core in node.cores if len(core) > 1)
    return next(shared, frozenset())


def _smt_sentence(siblings: frozenset[int]) -> str:
    return f"{len(siblings)} CPUs per core: {format_list(siblings)} share one"


def llama_sentence(view: LlamaView) -> str:
    """What its own --numa would do here, and what it misses."""
    if len(view.nodes) < 2:
        seen = "its own --numa sees no NUMA here"
    else:
        seen = f"its own --numa spreads threads over {name_nodes(view.nodes)}"
    if view.without_cpus:
        seen += f", counting {name_nodes(view.without_cpus)} without CPUs"
    if view.missed:
        why = (
            "it stops at 8 nodes" if len(view.nodes) == MOST_NODES else "it stops at the first gap"
        )
        seen += f", and misses {name_nodes(view.missed)}: {why}"
    return seen


def topology_json(machine: Machine) -> dict[str, Any]:
    """The document of `topology --json`, version 1. Sizes in bytes, lists in the kernel's
    spelling, ids that are keys as strings."""
    view = llama_view(machine)
    return {
        "schema": 1,
        "root": str(machine.root),
        "numa": machine.numa,
        "nodes": [_node_json(node) for node in machine.nodes],
        "sockets": [list(socket) for socket in machine.sockets],
        "mirror_nodes": list(machine.mirror_nodes),
        "replica_node_of_cpu_node": {
            str(node): copy for node, copy in machine.replica_node_of_cpu_node.items()
        },
        "gpus": [_gpu_json(gpu) for gpu in machine.gpus],
        "home": {"node": machine.home.node, "reason": machine.home.reason},
        "llama_numa": {"nodes": list(view.nodes), "missed": list(view.missed)},
        "notes": list(machine.notes),
    }


def _node_json(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "cpus": format_list(node.cpus),
        "allowed_cpus": format_list(node.allowed_cpus),
        "cores": [format_list(core) for core in node.cores],
        "mem_total_bytes": node.mem_total,
        "mem_free_bytes": node.mem_free,
        "mem_reclaimable_bytes": node.mem_reclaimable,
        "mem_allowed": node.mem_allowed,
        "distances": {str(other): distance for other, distance in node.distances.items()},
        "socket": node.socket,
        "kind": node.kind,
        "gpu": node.gpu,
    }


def _gpu_json(gpu: Gpu) -> dict[str, Any]:
    return {
        "address": gpu.address,
        "class": f"{gpu.pci_class:#08x}",
        "vendor": None if gpu.vendor is None else f"{gpu.vendor:#06x}",
        "name": gpu.name,
        "node": gpu.node,
        "votes": gpu.votes,
        "reason": gpu.reason,
    }
