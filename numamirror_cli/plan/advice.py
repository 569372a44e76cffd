"""What a person should know before memory is spent on a choice: facts, worded in report/."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numamirror_cli.memory.lock_limit import UNLIMITED
from numamirror_cli.plan.engine_args import EngineArguments
from numamirror_cli.plan.ram import Ram


@dataclass(frozen=True)
class CopiesDoNotFit:
    """One copy per node needs more than there is. per_socket: the same with one per socket, None
    where that is no different. there: available bytes of all nodes."""

    per_node: Ram
    per_socket: Ram | None
    there: int


@dataclass(frozen=True)
class PinnedTooLarge:
    """Weights in pinned memory that no node can hold. Bytes; largest: the largest node's."""

    pinned: int
    largest: int


@dataclass(frozen=True)
class LockLimit:
    """Locked memory that the limit does not allow. Bytes; need: of one copy."""

    need: int
    copies: int
    limit: int


@dataclass(frozen=True)
class FitsOneNode:
    """The model has room on one node: a second copy is a choice, no need. Bytes."""

    node: int
    bytes: int


Advice = CopiesDoNotFit | PinnedTooLarge | LockLimit | FitsOneNode


def copies_that_do_not_fit(
    per_node: Ram, per_socket: Ram | None, there: Mapping[int, int]
) -> CopiesDoNotFit | None:
    """Whether one copy for each node is too much. Bytes by node."""
    if per_node.fits:
        return None
    return CopiesDoNotFit(per_node, per_socket, sum(there.values()))


def pinned_too_large(
    pinned: int, node_bytes: Mapping[int, int], arguments: EngineArguments
) -> PinnedTooLarge | None:
    """Whether the engine will pin more than any node has, in bytes.

    With GPUs and without mapping, llama.cpp keeps CPU weights in the GPU driver's pinned memory,
    which comes from one thread in one piece.
    """
    largest = max(node_bytes.values(), default=0)
    pins = bool(arguments.gpu_layers) and not arguments.mmap
    return PinnedTooLarge(pinned, largest) if pins and pinned > largest else None


def lock_limit(
    need: int, copies: int, limit: int | None, arguments: EngineArguments
) -> LockLimit | None:
    """Whether --mlock needs more than RLIMIT_MEMLOCK allows, in bytes (None: not known)."""
    if not arguments.mlock or limit is None or limit == UNLIMITED or need * copies <= limit:
        return None
    return LockLimit(need, copies, limit)


def fits_one_node(bind: Ram, copies: int) -> FitsOneNode | None:
    """Whether several copies are planned of what one node could hold."""
    if copies < 2 or not bind.fits:
        return None
    return FitsOneNode(bind.needs[0].nodes[0], bind.bytes)
