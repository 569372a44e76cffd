"""How many bytes of a process lie on which node, in the rows that numastat made familiar."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass

from numamirror_cli.memory.numa_maps import Mapping

ROWS = ("huge", "heap", "stack", "private")


@dataclass(frozen=True)
class NodeBytes:
    """Bytes on one node, by numastat's rows (numastat(8)).

    huge: in hugetlbfs mappings. heap, stack: in mappings that the kernel calls so. private: all
    others, with file pages and shared libraries among them.
    """

    huge: int = 0
    heap: int = 0
    stack: int = 0
    private: int = 0

    @property
    def total(self) -> int:
        return self.huge + self.heap + self.stack + self.private


@dataclass(frozen=True)
class Placement:
    """NodeBytes per node, in id order; nodes of the machine that hold nothing are there with 0."""

    by_node: MappingOf[int, NodeBytes]

    @property
    def total(self) -> NodeBytes:
        """The sum over all nodes."""
        return NodeBytes(
            **{row: sum(getattr(node, row) for node in self.by_node.values()) for row in ROWS}
        )


def add_up(mappings: Iterable[Mapping], nodes: Iterable[int] = ()) -> Placement:
    """Add up the pages of all mappings.

    nodes: the machine's; pages on others (a node without a directory) get their own entry, so that
    no byte is lost.
    """
    sums: dict[int, dict[str, int]] = {node: dict.fromkeys(ROWS, 0) for node in nodes}
    for mapping in mappings:
        row = row_of(mapping)
        for node, count in mapping.bytes_by_node.items():
            sums.setdefault(node, dict.fromkeys(ROWS, 0))[row] += count
    return Placement({node: NodeBytes(**sums[node]) for node in sorted(sums)})


def row_of(mapping: Mapping) -> str:
    """The row in which a mapping is counted; a mapping that is huge and more counts as huge."""
    for row in ("huge", "heap", "stack"):
        if getattr(mapping, row):
            return row
    return "private"
