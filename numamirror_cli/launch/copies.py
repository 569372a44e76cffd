"""How many copies of the weights, on which memory nodes, and which CPUs read each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from numamirror_cli.machine.mirror import replica_nodes
from numamirror_cli.machine.model import Machine
from numamirror_cli.plan.cores import reading_cpus


@dataclass(frozen=True)
class Copy:
    """nodes: memory nodes over which the copy lies, in id order; cpus: those that read it; cores:
    of these one for each physical core."""

    nodes: tuple[int, ...]
    cpus: frozenset[int]
    cores: frozenset[int] = field(default=frozenset(), compare=False)


def copies_per_node(machine: Machine, nodes: Sequence[int]) -> tuple[Copy, ...]:
    """One copy on each of those nodes. CPUs of other nodes read the copy that is nearest."""
    return tuple(_copy(machine, nodes, (node,)) for node in nodes)


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
    return tuple(_copy(machine, nodes, group) for group in in_order)


def _copy(machine: Machine, nodes: Sequence[int], group: tuple[int, ...]) -> Copy:
    read_from = replica_nodes(machine.nodes, nodes)
    readers = [machine.node(node) for node, copy in read_from.items() if copy in group]
    cpus: frozenset[int] = frozenset().union(*(node.allowed_cpus for node in readers))
    return Copy(group, cpus, frozenset(cpu for node in readers for cpu in reading_cpus(node)))
