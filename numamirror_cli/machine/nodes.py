"""NUMA nodes as sysfs shows them: ids, CPUs, memory, distances.

The rules are those of the kernel's drivers/base/node.c and Documentation/admin-guide/mm/numaperf:
a node's directory is nodeN; `distance` has one column per online node, in id order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numamirror_cli.figures import counted
from numamirror_cli.machine.cpulist import parse_list, parse_mask
from numamirror_cli.machine.tree import Tree

NODE_DIR = "sys/devices/system/node"

_MEMINFO_LINE = re.compile(r"Node\s+\d+\s+([^:]+):\s+(\d{1,18})(?: kB)?\s*")


@dataclass(frozen=True)
class NodeFacts:
    """One node's own files. Memory in bytes, None where the kernel does not say."""

    id: int
    cpus: frozenset[int]
    mem_total: int | None
    mem_free: int | None
    mem_reclaimable: int
    distances: Mapping[int, int]


def read_nodes(tree: Tree) -> tuple[NodeFacts, ...]:
    """All online nodes in id order; empty when the kernel exposes no NUMA."""
    ids = online_ids(tree)
    columns = _distance_columns(tree, ids)
    return tuple(_read_node(tree, node_id, columns) for node_id in ids)


def online_ids(tree: Tree) -> tuple[int, ...]:
    """Ids from `online` where it can be read, else from the directory; ids may have gaps.

    has_cpu and has_memory are not consulted: both are stale or empty on some kernels.
    """
    present = {int(name[4:]) for name in tree.names(NODE_DIR) if re.fullmatch(r"node\d+", name)}
    online = tree.parsed(f"{NODE_DIR}/online", parse_list)
    if not online:
        return tuple(sorted(present))
    for missing in sorted(online - present):
        tree.note(f"{NODE_DIR}/online", f"node {missing} is online but has no directory")
    return tuple(sorted(online & present))


def _read_node(tree: Tree, node_id: int, columns: Sequence[Sequence[int]]) -> NodeFacts:
    path = f"{NODE_DIR}/node{node_id}"
    memory = _read_meminfo(tree, f"{path}/meminfo")
    return NodeFacts(
        id=node_id,
        cpus=_read_cpus(tree, path),
        mem_total=memory.get("MemTotal"),
        mem_free=memory.get("MemFree"),
        mem_reclaimable=_reclaimable(memory),
        distances=_read_distances(tree, node_id, columns),
    )


def _read_cpus(tree: Tree, path: str) -> frozenset[int]:
    """cpumap holds online CPUs only; cpulist on some kernels offline ones too."""
    cpus = tree.parsed(f"{path}/cpumap", parse_mask)
    if cpus is None:
        cpus = tree.parsed(f"{path}/cpulist", parse_list)
    return cpus or frozenset()


def _read_meminfo(tree: Tree, path: str) -> dict[str, int]:
    """Amounts in bytes by name; counts (HugePages_Total) are left out, broken lines are noted."""
    amounts: dict[str, int] = {}
    for line in (tree.text(path) or "").splitlines():
        match = _MEMINFO_LINE.fullmatch(line)
        if match is None:
            if line.strip("\0 "):
                tree.note(path, f"line ignored: {line!r}")
        elif "kB" in line:
            amounts[match[1]] = int(match[2]) * 1024
    return amounts


def _reclaimable(memory: Mapping[str, int]) -> int:
    """Page cache on the file LRU lists, less what must be written first (proc(5), meminfo)."""
    cache = memory.get("Active(file)", 0) + memory.get("Inactive(file)", 0)
    return max(0, cache - memory.get("Dirty", 0) - memory.get("Writeback", 0))


def _distance_columns(tree: Tree, ids: Sequence[int]) -> tuple[Sequence[int], ...]:
    """What the columns of `distance` may stand for, best guess first.

    The kernel prints one per online node; a dump taken around a hot-unplug has one per possible
    node.
    """
    online = tree.parsed(f"{NODE_DIR}/online", parse_list) or ids
    possible = tree.parsed(f"{NODE_DIR}/possible", parse_list) or ids
    return sorted(online), sorted(possible)


def _read_distances(tree: Tree, node_id: int, columns: Sequence[Sequence[int]]) -> dict[int, int]:
    path = f"{NODE_DIR}/node{node_id}/distance"
    values = tree.parsed(path, _parse_distances)
    if values is None:
        return {}
    for ids in columns:
        if len(ids) == len(values):
            return dict(zip(ids, values, strict=True))
    distances, nodes = counted(len(values), "distance"), counted(len(columns[0]), "online node")
    tree.note(path, f"{distances} for {nodes}: ignored")
    return {}


def _parse_distances(text: str) -> list[int]:
    if not all(word.isdecimal() for word in text.split()):
        raise ValueError(f"not a row of distances: {text!r}")
    return [int(word) for word in text.split()]
