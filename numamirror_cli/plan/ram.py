"""How much memory each strategy takes on each node, and whether it is there.

What counts as there is what the shim counts (node_memory.c): free, plus clean page cache, less a
32nd of the node that is left to the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numamirror_cli.machine.model import Machine, Node
from numamirror_cli.plan.layout import BIND, INTERLEAVE, MIRROR, NONE, PREFER, SHARD

Groups = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Need:
    """Bytes to be had on these nodes together."""

    nodes: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Ram:
    """What a strategy needs. lacking: those of the needs that are larger than what is there."""

    strategy: str
    needs: tuple[Need, ...]
    lacking: tuple[Need, ...]

    @property
    def bytes(self) -> int:
        return sum(need.bytes for need in self.needs)

    @property
    def fits(self) -> bool:
        return not self.lacking


def ram_of(
    strategy: str, primary: int, replica: int, groups: Groups, home: int, there: Mapping[int, int]
) -> Ram:
    """What a strategy needs, held against what is there.

    primary: bytes of the weights with what belongs to them (KV cache); replica: bytes of one
    further copy. groups: the nodes of each copy of a mirror, one node each or those of a socket.
    there: available bytes by node.
    """
    needs = tuple(_needs(strategy, primary, replica, groups, home))
    if strategy in (PREFER, NONE):
        # Both spill over to other nodes: they lack only what no node has.
        lacking = needs if primary > sum(there.values()) else ()
    else:
        lacking = tuple(need for need in needs if need.bytes > room_on(need.nodes, there))
    return Ram(strategy, needs, lacking)


def _needs(strategy: str, primary: int, replica: int, groups: Groups, home: int) -> list[Need]:
    everywhere = tuple(node for group in groups for node in group)
    if strategy == MIRROR:
        return [Need(tuple(group), primary if home in group else replica) for group in groups]
    if strategy in (INTERLEAVE, SHARD):
        return [Need((node,), -(-primary // len(everywhere))) for node in everywhere]
    if strategy in (BIND, PREFER):
        return [Need((home,), primary)]
    return [Need(everywhere, primary)]


def room_on(nodes: Sequence[int], there: Mapping[int, int]) -> int:
    """Available bytes of these nodes together."""
    return sum(there.get(node, 0) for node in nodes)


def available_bytes(node: Node) -> int:
    """What may still be taken on a node; 0 where the kernel does not say."""
    if node.mem_free is None or not node.can_hold_a_copy:
        return 0
    reserve = (node.mem_total or 0) // 32
    return max(0, node.mem_free + node.mem_reclaimable - reserve)


def groups_by_node(machine: Machine) -> tuple[tuple[int, ...], ...]:
    """One copy on each mirror node."""
    return tuple((node,) for node in machine.mirror_nodes)


def groups_by_socket(machine: Machine) -> tuple[tuple[int, ...], ...]:
    """One copy on the mirror nodes of each socket."""
    groups = (tuple(n for n in socket if n in machine.mirror_nodes) for socket in machine.sockets)
    return tuple(group for group in groups if group)
