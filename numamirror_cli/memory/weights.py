"""Where a process's weights are, as far as the kernel alone can tell, and how many copies."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from numamirror_cli.memory.buffers import (
    ANONYMOUS,
    REPLICA,
    WEIGHTS,
    Buffer,
    add_by_node,
)
from numamirror_cli.memory.policy import Policy

# A node that holds this much of a copy is said to hold it; a few pages are always elsewhere.
MOST = 0.95
# A mapped file with less than this in memory is not what the engine computes with.
_UNUSED = 0.1


@dataclass(frozen=True)
class Weights:
    """The weights of a process.

    name: path, or "" for anonymous memory taken for weights by its size. in_file: they are page
    cache. one_copy: bytes of one copy, None when unknown. by_node: bytes in memory per node, all
    copies. mapped: bytes of address space; faulted_share: of a mapped file, what is in memory.
    policy: of the buffer with most memory. own_mirror: the engine was told to mirror by itself.
    """

    name: str
    in_file: bool
    one_copy: int | None
    by_node: Mapping[int, int]
    mapped: int
    policy: Policy
    own_mirror: bool = False

    @property
    def bytes(self) -> int:
        return sum(self.by_node.values())

    @property
    def faulted_share(self) -> float:
        return min(1.0, self.bytes / self.mapped) if self.mapped else 0.0

    @property
    def copies(self) -> float | None:
        """How many copies the bytes in memory make; None when one copy's size is unknown."""
        return self.bytes / self.one_copy if self.one_copy else None

    @property
    def nodes(self) -> tuple[int, ...]:
        """Nodes with more than a trace of them."""
        return tuple(
            node for node, count in self.by_node.items() if count > (1 - MOST) * self.bytes
        )

    @property
    def mirrored(self) -> bool:
        """At least two nodes hold a copy each."""
        if not self.one_copy:
            return False
        whole = [node for node, count in self.by_node.items() if count >= MOST * self.one_copy]
        return len(whole) > 1


def find_weights(
    buffers: Sequence[Buffer], model_bytes: int = 0, *, own_mirror: bool = False
) -> Weights | None:
    """The weights among a process's buffers; None when nothing looks like weights.

    A mapped GGUF file, if it is in use; else large anonymous memory, judged by its size, since
    engines also load without mapping. model_bytes: size of the model on the command line, 0 when
    it names none; it is what one copy of anonymous weights is measured by. own_mirror: the engine
    mirrors by itself, so that what is anonymous beside a mapped file is copies of it.
    """
    files = [buffer for buffer in buffers if buffer.kind == WEIGHTS]
    anonymous = [buffer for buffer in buffers if buffer.kind == ANONYMOUS]
    file_bytes = sum(buffer.bytes for buffer in files)
    if files and own_mirror:
        mapped = sum(buffer.mapped for buffer in files)
        found = _weights([*files, *anonymous], mapped, in_file=False)
        return replace(found, name=files[0].name, mapped=mapped, own_mirror=True)
    if files and file_bytes >= _UNUSED * sum(buffer.bytes for buffer in anonymous):
        return _weights(files, sum(buffer.mapped for buffer in files), in_file=True)
    if anonymous:
        return _weights(anonymous, model_bytes or None, in_file=False)
    return None


def mirrors_by_itself(arguments: Sequence[str]) -> bool:
    """The command line asks the engine for a mirror of its own (--numa mirror)."""
    pairs = itertools.pairwise(arguments)
    return ("--numa", "mirror") in pairs or "--numa=mirror" in arguments


def replica_bytes(buffers: Sequence[Buffer]) -> dict[str, Mapping[int, int]]:
    """Per arena of the shim, by its nodes ("0", or "0,1"): where the kernel has its pages."""
    return {
        buffer.name.rpartition(":node")[2]: buffer.bytes_by_node
        for buffer in buffers
        if buffer.kind == REPLICA
    }


def _weights(buffers: Sequence[Buffer], one_copy: int | None, *, in_file: bool) -> Weights:
    largest = max(buffers, key=lambda buffer: buffer.bytes)
    return Weights(
        name=largest.name if in_file else "",
        in_file=in_file,
        one_copy=one_copy,
        by_node=add_by_node(buffer.bytes_by_node for buffer in buffers),
        mapped=sum(buffer.mapped for buffer in buffers),
        policy=largest.policy,
    )
