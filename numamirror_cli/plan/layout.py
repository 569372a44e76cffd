"""Where each strategy puts the weights: bytes on every node, and what each node's threads read.

A strategy is one of the words mirror, shard, prefer, interleave, bind and none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MIRROR, SHARD, PREFER = "mirror", "shard", "prefer"
INTERLEAVE, BIND, NONE = "interleave", "bind", "none"


@dataclass(frozen=True)
class Layout:
    """reads: for each node whose threads work, the share of what they read by node of the memory.

    {0: {0: 1.0}, 1: {0: 0.5, 1: 0.5}}: node 0 reads its own memory, node 1 half of each.
    """

    reads: Mapping[int, Mapping[int, float]]

    @property
    def readers(self) -> tuple[int, ...]:
        return tuple(self.reads)


def layout(strategy: str, nodes: Sequence[int], home: int, coverage: float = 1.0) -> Layout:
    """What the threads of those nodes read under that strategy.

    coverage: of a mirror, the share of the reads that replicas serve; the rest comes from the
    primary on the home node. What strategy none gives depends on who touched the pages first: see
    first_touch_layouts.
    """
    if strategy == BIND:
        return Layout({home: {home: 1.0}})
    if strategy == INTERLEAVE:
        return Layout({reader: dict.fromkeys(nodes, 1 / len(nodes)) for reader in nodes})
    if strategy == SHARD:
        return Layout({reader: {reader: 1.0} for reader in nodes})
    if strategy == PREFER:
        return Layout({reader: {home: 1.0} for reader in nodes})
    if strategy != MIRROR:
        raise ValueError(f"no layout of its own: {strategy}")
    return Layout({reader: _mirrored(reader, home, coverage) for reader in nodes})


def first_touch_layouts(nodes: Sequence[int], home: int) -> tuple[Layout, ...]:
    """What strategy none may become: all on the node of the loading thread, spread by a warm page
    cache, or, after long use with fixed threads, all at its readers."""
    spread = (layout(strategy, nodes, home) for strategy in (PREFER, INTERLEAVE, MIRROR))
    return tuple(spread)


def _mirrored(reader: int, home: int, coverage: float) -> dict[int, float]:
    if reader == home:
        return {home: 1.0}
    shares = {reader: coverage, home: 1 - coverage}
    return {node: share for node, share in shares.items() if share > 0}
