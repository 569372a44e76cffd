"""How many copies of the weights, on which memory nodes, and which CPUs read each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from numamirror_cli.machine.mirror import replica_nodes
from numamirror_cli.machine.model import Machine


@dataclass(frozen=True)
class Copy:
    """nodes: memory nodes over which the copy lies, in id order; cpus: those that read it."""

    nodes: tuple[int, ...]
    cpus: frozenset[int]


def copies_per_node(machine: Machine, nodes: Sequence[int]) -> tuple[Copy, ...]:
    """One copy on each of those nodes. CPUs of other nodes read the copy that is nearest."""
    return tuple(Copy((node,), _readers(machine, nodes, [node])) for node in nodes)


def copies_per_socket(machine: Machine, nodes: Sequence[int]) -> tuple[Copy, ...]:
    """One copy per socket, interleaved over those of the nodes that the socket has.

    Nodes that are in no socket (memory without CPUs) get a copy of their own.
    """
    groups = [
        tuple(node for node in nodes if machine.node(node).socket == socket)
        for socket in range(len(machine.sockets))
    ]
    alone = [(node,) for node in nodes if machine.node(node).socket is None]
    in_order = sorted(group for group in [*groups, *alone] if group)
    return tuple(Copy(group, _readers(machine, nodes, group)) for group in in_order)


def _readers(machine: Machine, nodes: Sequence[int], group: Iterable[int]) -> frozenset[int]:
    read_from = replica_nodes(machine.nodes, nodes)
    there = set(group)
    cpus = (machine.node(node).allowed_cpus for node, copy in read_from.items() if copy in there)
    return frozenset().union(*cpus)
