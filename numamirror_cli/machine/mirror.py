"""Which nodes get a copy of the weights, and whose CPUs read which copy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.machine.model import Machine, Node


def find_mirror_nodes(nodes: Sequence[Node]) -> tuple[int, ...]:
    """Nodes with an allowed CPU and memory of their own to use, in id order.

    Memory without CPUs is used only where no node has both, and then only what is nearest to the
    CPUs.
    """
    both = tuple(node.id for node in nodes if node.allowed_cpus and node.can_hold_a_copy)
    if both:
        return both
    memory = [node.id for node in nodes if node.can_hold_a_copy]
    return tuple(sorted(set(replica_nodes(nodes, memory).values())))


def replica_nodes(nodes: Sequence[Node], copies: Collection[int]) -> dict[int, int]:
    """For each node with allowed CPUs, the one of `copies` that its CPUs read: itself, or the
    nearest by distance, the lowest id among equals. Empty without copies."""
    with_cpus = (node for node in nodes if node.allowed_cpus and copies)
    return {node.id: _nearest(node, copies) for node in with_cpus}


def _nearest(node: Node, copies: Collection[int]) -> int:
    if node.id in copies:
        return node.id
    unknown = 1 << 30
    return min(copies, key=lambda copy: (node.distances.get(copy, unknown), copy))


def choose_nodes(machine: Machine, wanted: Iterable[int]) -> tuple[int, ...]:
    """The nodes of `--nodes`, checked, in id order. CPU-less memory may be named.

    Raises NumaMirrorError (exit 2) for a node that is unknown or cannot hold a copy, naming those
    that can.
    """
    for node_id in sorted(set(wanted)):
        problem = why_no_copy(machine, node_id)
        if problem:
            raise NumaMirrorError(problem, hint=nodes_that_can(machine), exit_code=2)
    return tuple(sorted(set(wanted)))


def why_no_copy(machine: Machine, node_id: int) -> str | None:
    """Why a node cannot hold a copy, as a message; None when it can."""
    ids = [node.id for node in machine.nodes]
    if node_id not in ids:
        there_are = f"this machine has {_called(ids)}" if ids else "this kernel exposes no NUMA"
        return f"there is no node {node_id}: {there_are}"
    node = machine.node(node_id)
    if node.can_hold_a_copy:
        return None
    if not node.mem_allowed:
        return f"node {node_id} is not in Mems_allowed_list ({machine.allowed_mems})"
    if node.gpu is not None:
        return f"node {node_id} is the memory of GPU {node.gpu}"
    return f"node {node_id} has no memory"


def nodes_that_can(machine: Machine) -> str:
    """A hint that names the nodes that can hold a copy."""
    able = [node.id for node in machine.nodes if node.can_hold_a_copy]
    return f"usable here: {_called(able)}" if able else "no node is usable here"


def _called(ids: Sequence[int]) -> str:
    return f"node {ids[0]}" if len(ids) == 1 else f"nodes {format_list(ids)}"
