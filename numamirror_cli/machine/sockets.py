"""Which nodes share a physical package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from numamirror_cli.machine.nodes import NodeFacts

Sockets = tuple[tuple[int, ...], ...]


def find_sockets(nodes: Sequence[NodeFacts], packages: Mapping[int, int]) -> Sockets:
    """Groups of nodes with CPUs, each sorted, in order of their lowest id.

    By package id (physical_package_id of their CPUs) where every such node has one, else by
    distance. Nodes without CPUs are in no socket.
    """
    with_cpus = [node for node in nodes if node.cpus]
    if all(packages_of(node.cpus, packages) for node in with_cpus):
        return _grouped(
            (node.id, other.id)
            for node in with_cpus
            for other in with_cpus
            if packages_of(node.cpus, packages) & packages_of(other.cpus, packages)
        )
    return _by_distance(with_cpus)


def packages_of(cpus: frozenset[int], packages: Mapping[int, int]) -> frozenset[int]:
    """The package ids that these CPUs belong to."""
    return frozenset(packages[cpu] for cpu in cpus if cpu in packages)


def _by_distance(nodes: Sequence[NodeFacts]) -> Sockets:
    """Nodes at the shortest distance of the machine share a socket.

    Only if that makes groups whose members are all that close to one another and to nobody else:
    where all are equally far, or the links form a ladder, each node stands for itself.
    """
    far = {d for node in nodes for other, d in node.distances.items() if other != node.id}
    alone = tuple((node.id,) for node in nodes)
    if len(far) < 2:
        return alone
    nearest = min(far)
    ids = {node.id for node in nodes}
    groups = _grouped(
        (node.id, other)
        for node in nodes
        for other in ids
        if other == node.id or node.distances.get(other) == nearest
    )
    by_id = {node.id: node for node in nodes}
    is_clique = all(
        by_id[one].distances.get(other) == nearest
        for group in groups
        for one in group
        for other in group
        if one != other
    )
    return groups if is_clique else alone


def _grouped(pairs: Iterable[tuple[int, int]]) -> Sockets:
    """The connected groups of a graph given by its edges (an edge to itself is a lone node)."""
    group_of: dict[int, set[int]] = {}
    for one, other in pairs:
        merged = group_of.get(one, {one}) | group_of.get(other, {other})
        for member in merged:
            group_of[member] = merged
    groups = {min(group): tuple(sorted(group)) for group in group_of.values()}
    return tuple(groups[first] for first in sorted(groups))
