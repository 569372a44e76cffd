"""The home node: elected by the GPUs, or named by the user."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.machine.mirror import nodes_that_can, why_no_copy
from numamirror_cli.machine.model import Gpu, Home, Machine
from numamirror_cli.machine.tree import decimal

HOME_VARIABLE = "NUMAMIRROR_HOME"


def elect_home(
    mirror_nodes: Sequence[int], replica_node_of: Mapping[int, int], gpus: Sequence[Gpu]
) -> Home:
    """The mirror node with most GPUs that vote, the lowest id among equals; without votes the
    lowest mirror node. A GPU on a CPU node without memory votes for the node its CPUs read."""
    if not mirror_nodes:
        return Home(None, "this kernel exposes no NUMA nodes")
    voters: dict[int, list[Gpu]] = {node: [] for node in mirror_nodes}
    for gpu in gpus:
        if gpu.votes and gpu.node is not None:
            voters[replica_node_of.get(gpu.node, gpu.node)].append(gpu)
    counts = Counter({node: len(there) for node, there in voters.items()})
    home = min(mirror_nodes, key=lambda node: (-counts[node], node))
    if not counts[home]:
        return Home(home, _reason_without_votes(mirror_nodes, gpus))
    return Home(home, _reason_with_votes(home, voters[home], counts))


def _reason_without_votes(mirror_nodes: Sequence[int], gpus: Sequence[Gpu]) -> str:
    if len(mirror_nodes) == 1:
        return "the only mirror node"
    return "no GPU votes, lowest mirror node" if gpus else "no GPU, lowest mirror node"


def _reason_with_votes(home: int, there: Sequence[Gpu], counts: Counter[int]) -> str:
    are_there = "are there" if all(gpu.node == home for gpu in there) else "are nearest to it"
    addresses = ", ".join(gpu.address for gpu in there)
    reason = f"{len(there)} of {counts.total()} GPUs {are_there} ({addresses})"
    tied = [count for count in counts.values() if count == counts[home]]
    if len(tied) == 1:
        return reason
    return f"{reason}; {':'.join(map(str, tied))} tie, lowest node id"


def choose_home(
    machine: Machine, wanted: int | None, environ: Mapping[str, str] = os.environ
) -> Home:
    """The home node to use: `wanted` (--home), else NUMAMIRROR_HOME, else the elected one.

    Raises NumaMirrorError (exit 2), naming the nodes there are, for a node that does not exist and
    for one named with --home that cannot hold a copy. NUMAMIRROR_HOME is a standing wish: where a
    cpuset or missing memory makes it impossible, the election decides, and the reason says so.
    """
    if wanted is not None:
        problem = why_no_copy(machine, wanted)
        if problem:
            raise NumaMirrorError(
                f"--home {wanted}: {problem}", hint=nodes_that_can(machine), exit_code=2
            )
        return Home(wanted, "named with --home")
    text = environ.get(HOME_VARIABLE, "").strip()
    return _home_from_variable(machine, text) if text else machine.home


def _home_from_variable(machine: Machine, text: str) -> Home:
    spelled = f"{HOME_VARIABLE}={text}"
    wanted = decimal(text)
    if wanted is None:
        raise NumaMirrorError(
            f"{spelled}: not a node id", hint=nodes_that_can(machine), exit_code=2
        )
    problem = why_no_copy(machine, wanted)
    if problem is None:
        return Home(wanted, f"named in {HOME_VARIABLE}")
    if machine.nodes and wanted not in [node.id for node in machine.nodes]:
        raise NumaMirrorError(f"{spelled}: {problem}", hint=nodes_that_can(machine), exit_code=2)
    return Home(machine.home.node, f"{machine.home.reason} ({spelled} is not used: {problem})")
