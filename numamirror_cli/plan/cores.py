"""The CPUs of a node that read weights: one of each physical core, as engines place threads."""

from __future__ import annotations

from numamirror_cli.machine.cores import cpus_in_order
from numamirror_cli.machine.model import Machine, Node


def reading_cpus(node: Node) -> tuple[int, ...]:
    """One allowed CPU of each core of the node."""
    in_order = cpus_in_order(node)
    cores = sum(1 for core in node.cores if core & node.allowed_cpus)
    return in_order[:cores] if cores else in_order


def cores_by_mirror_node(machine: Machine) -> dict[int, int]:
    """How many cores read each mirror node's copy, those of nodes without memory included."""
    cores = dict.fromkeys(machine.mirror_nodes, 0)
    for reader, node in machine.replica_node_of_cpu_node.items():
        cores[node] = cores.get(node, 0) + len(reading_cpus(machine.node(reader)))
    return cores
