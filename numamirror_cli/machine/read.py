"""From a sysfs root to a Machine: what is there, what this process may use, who is home."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from numamirror_cli.machine.allowed import Allowed, read_allowed
from numamirror_cli.machine.cores import Cores, group_by_core, read_cores
from numamirror_cli.machine.gpus import memory_nodes_of_gpus, read_gpus
from numamirror_cli.machine.home import elect_home
from numamirror_cli.machine.mirror import find_mirror_nodes, replica_nodes
from numamirror_cli.machine.model import Machine, Node
from numamirror_cli.machine.nodes import NodeFacts, read_nodes
from numamirror_cli.machine.notes import note_on_hidden_nodes, note_on_sockets, notes_on_nodes
from numamirror_cli.machine.sockets import Sockets, find_sockets, packages_of
from numamirror_cli.machine.tree import Tree


def read_machine(
    root: Path = Path("/"), *, environ: Mapping[str, str] = os.environ, pid: int | None = None
) -> Machine:
    """Read the machine below `root`, as process `pid` (this one by default) may use it.

    Nothing here raises for what is found in the files: what cannot be read or parsed is named in
    Machine.notes, and the rest is used. Without NUMA there are no nodes and the home is None.
    environ: where the visible-devices variables are looked up; NUMAMIRROR_HOME is choose_home's.
    """
    tree = Tree(root)
    facts = read_nodes(tree)
    cores = read_cores(tree, frozenset[int]().union(*(node.cpus for node in facts)))
    sockets = find_sockets(facts, cores.packages)
    allowed = read_allowed(tree, pid)
    nodes = _nodes(facts, allowed, sockets, cores, memory_nodes_of_gpus(tree))
    mirror_nodes = find_mirror_nodes(nodes)
    replica_node_of = replica_nodes(nodes, mirror_nodes)
    voting_nodes = frozenset(mirror_nodes) | replica_node_of.keys()
    gpus, notes_on_gpus = read_gpus(tree, nodes, voting_nodes, environ)
    packages = [len(packages_of(node.cpus, cores.packages)) for node in nodes]
    return Machine(
        root=root,
        numa=bool(nodes),
        nodes=nodes,
        sockets=sockets,
        mirror_nodes=mirror_nodes,
        replica_node_of_cpu_node=replica_node_of,
        gpus=gpus,
        home=elect_home(mirror_nodes, replica_node_of, gpus),
        notes=(
            *note_on_hidden_nodes(tree, nodes, packages),
            *notes_on_nodes(nodes, mirror_nodes, allowed.mems_text()),
            *note_on_sockets(sockets, mirror_nodes),
            *notes_on_gpus,
            *tree.notes,
        ),
        allowed_mems=allowed.mems_text(),
    )


def _nodes(
    facts: Sequence[NodeFacts],
    allowed: Allowed,
    sockets: Sockets,
    cores: Cores,
    gpu_memory: Mapping[int, str],
) -> tuple[Node, ...]:
    socket_of = {node: index for index, group in enumerate(sockets) for node in group}
    return tuple(
        Node(
            id=fact.id,
            cpus=fact.cpus,
            allowed_cpus=fact.cpus if allowed.cpus is None else fact.cpus & allowed.cpus,
            mem_total=fact.mem_total,
            mem_free=fact.mem_free,
            mem_reclaimable=fact.mem_reclaimable,
            mem_allowed=allowed.mems is None or fact.id in allowed.mems,
            distances=fact.distances,
            socket=socket_of.get(fact.id),
            cores=group_by_core(fact.cpus, cores),
            gpu=gpu_memory.get(fact.id),
        )
        for fact in facts
    )
