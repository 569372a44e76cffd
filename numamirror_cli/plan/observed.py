"""From what the shim counted while it observed, to what another strategy would make of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from numamirror_cli.memory.status_page import MirrorStatus
from numamirror_cli.plan.layout import BIND, INTERLEAVE, MIRROR, SHARD, Layout
from numamirror_cli.plan.predict import (
    Range,
    Reader,
    best_reading_time,
    read_seconds,
    reading_time,
    times_as_fast,
)

# Of the shim (native/src/observe.c): pages asked for each tensor, and the steps of a share.
PAGES_PER_TENSOR = 64
SHARE_STEPS = 256


@dataclass(frozen=True)
class NodeReads:
    """GEMM weight bytes read by the threads of a node: all, and from its own memory."""

    node: int
    threads: int
    bytes: int
    local: int

    @property
    def share(self) -> float:
        """The local share; 1 where nothing was read."""
        return self.local / self.bytes if self.bytes else 1.0


@dataclass(frozen=True)
class Observed:
    """nodes: those whose threads read. error: how far off a local share may be, at 95 %.
    per_token: bytes read for one token, None before any. tokens: graphs of one token."""

    nodes: tuple[NodeReads, ...]
    error: float
    per_token: float | None
    tokens: int

    @property
    def bytes(self) -> int:
        return sum(node.bytes for node in self.nodes)

    @property
    def share(self) -> float:
        """The local share of all reads; 1 where nothing was read."""
        local = sum(node.local for node in self.nodes)
        return local / self.bytes if self.bytes else 1.0


def observed_reads(status: MirrorStatus) -> Observed:
    """Who read how much from where, since the start."""
    nodes = []
    for index, copy in enumerate(status.copies):
        reads = [each for each in status.reads if each.copy == index]
        total, local = sum(r.bytes for r in reads), sum(r.shard_bytes for r in reads)
        threads = sum(1 for each in status.threads if each.copy == index)
        if total:
            nodes.append(NodeReads(copy.node, threads, total, local))
    found = Observed(tuple(nodes), 0.0, None, status.decode_graphs)
    per_token = status.decode_bytes / status.decode_graphs if status.decode_graphs else None
    return Observed(found.nodes, share_error(found.share, status), per_token, found.tokens)


def share_error(share: float, status: MirrorStatus) -> float:
    """The 95 % bound of a share from samples of so many tensors; the pages of a tensor are asked
    in equal distances. Where all or none were local, the rule of three."""
    pages = max(1, status.gemm_tensors) * PAGES_PER_TENSOR
    sampling = max(1.96 * math.sqrt(share * (1 - share) / pages), 3 / pages)
    return min(1.0, sampling + 1 / SHARE_STEPS)


def local_shares(nodes: int) -> Mapping[str, float]:
    """What share of the reads each strategy makes local, on that many equal nodes."""
    return {MIRROR: 1.0, SHARD: 1.0, INTERLEAVE: 1 / nodes, BIND: 1.0}


def speed_against_now(
    strategy: str, observed: Observed, machine: Reader, fixed: float
) -> Range | None:
    """How many times as fast decoding would be; None where the observed nodes are not those of the
    machine's figures."""
    if {node.node for node in observed.nodes} != set(machine.nodes):
        return None
    now = read_seconds(_layout_now(observed, machine), 1.0, machine)
    then = reading_time(strategy, 1.0, machine)
    return times_as_fast(then, now, fixed * best_reading_time(1.0, machine))


def _layout_now(observed: Observed, machine: Reader) -> Layout:
    """What was not local came from the other nodes: which of them, the shim does not count, so
    that it is spread evenly."""
    reads = {}
    for node in observed.nodes:
        others = [other for other in machine.nodes if other != node.node]
        remote = (1 - node.share) / len(others) if others else 0.0
        shares = {node.node: node.share, **dict.fromkeys(others, remote)}
        reads[node.node] = {where: share for where, share in shares.items() if share > 0}
    return Layout(reads)
