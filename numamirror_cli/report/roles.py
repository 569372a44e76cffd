"""What a node is to a mirror of one copy per node, in a word or three."""

from __future__ import annotations

from numamirror_cli.machine.model import Machine, Node


def role(node: Node, machine: Machine) -> str:
    """ "home", "mirror", "reads node 5" for CPUs without memory, else why it gets no copy."""
    if node.id == machine.home.node:
        return "home" if node.id in machine.mirror_nodes else "home, memory only"
    if node.id in machine.mirror_nodes:
        return "mirror"
    if node.gpu is not None:
        return "GPU memory"
    if node.id in machine.replica_node_of_cpu_node:
        return f"reads node {machine.replica_node_of_cpu_node[node.id]}"
    if not node.mem_total:
        return "no memory"
    if not node.mem_allowed:
        return "memory not allowed"
    return "CPUs not allowed" if node.cpus else "memory only"
