"""A process's mappings, put together into what a person would name: files, replicas, buffers.

Whether anonymous memory holds weights cannot be read off a name: engines load without mapping too
(direct I/O, --no-mmap, repacking). Large anonymous buffers are therefore listed by their size.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass

from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.memory.maps import Extent
from numamirror_cli.memory.model_files import is_weights_file
from numamirror_cli.memory.numa_maps import Mapping
from numamirror_cli.memory.policy import DEFAULT, Policy, parse_policy
from numamirror_cli.memory.scratch import Scratch, without_scratch
from numamirror_cli.memory.smaps import Detail

# The shim's arenas are known by the name that it gives them (PR_SET_VMA_ANON_NAME) or, where the
# kernel keeps no names, by how it asks for them: huge pages, no core dump, no reserve.
REPLICA_PREFIX = "numamirror:replica:"
_REPLICA_FLAGS = {"hg", "dd", "nr"}
# Buffers of at least this size are listed one by one.
LARGE = 64 << 20

WEIGHTS, REPLICA, CACHE, COMPUTE, ANONYMOUS, FILE, LIBRARY, OTHER = (
    "weights",
    "replica",
    "cache",
    "compute",
    "anonymous",
    "file",
    "library",
    "other",
)


@dataclass(frozen=True)
class Buffer:
    """One or more mappings that belong together.

    kind: WEIGHTS (a mapped GGUF file), REPLICA (of the shim), CACHE and COMPUTE (as far as the
    shim knows), ANONYMOUS (large), FILE (any other mapped file or shared memory), LIBRARY (a file
    with code in it), OTHER (small anonymous).
    name: path, name of the arena, or address range. mapped: bytes of address space.
    policy: of the mapping with most memory. mapmax: most processes that map one of its pages.
    huge_bytes: of bytes, what lies in huge pages of either kind; None when that is not known.
    locked: the largest mapping is kept in memory (mlock). asked: pages from which bytes_by_node is
    estimated, 0 where all were counted.
    """

    kind: str
    name: str
    mapped: int
    bytes_by_node: MappingOf[int, int]
    policy: Policy = DEFAULT
    mapmax: int = 1
    huge_bytes: int | None = None
    locked: bool = False
    asked: int = 0

    @property
    def bytes(self) -> int:
        """In memory, on all nodes."""
        return sum(self.bytes_by_node.values())

    @property
    def faulted_share(self) -> float:
        """Of what is mapped, the share that is in memory and mapped by the process."""
        return min(1.0, self.bytes / self.mapped) if self.mapped else 0.0


def find_buffers(
    mappings: Iterable[Mapping],
    extents: Sequence[Extent],
    details: MappingOf[int, Detail] | None = None,
    *,
    has_shim: bool = False,
    scratch: Sequence[Scratch] = (),
) -> tuple[Buffer, ...]:
    """Put a process's mappings together, largest buffer first; empty ones are left out.

    details: by the address of a mapping, None when not known. has_shim: the shim is in the
    process, so that what looks like its arenas is. scratch: what the shim knows of caches and of
    memory for computing, which is taken out of the rest.
    """
    reach = {extent.start: extent for extent in extents}
    code = {extent.name for extent in extents if extent.executable and extent.inode}
    groups: dict[tuple[str, str], list[tuple[Mapping, Extent]]] = {}
    last_anonymous: Extent | None = None
    run = ""
    for mapping in without_scratch(mappings, scratch):
        extent = reach.get(mapping.address) or _unknown_extent(mapping)
        kind, name = _kind_and_name(mapping, extent, code)
        if has_shim and kind == ANONYMOUS and _looks_like_an_arena(mapping, details or {}):
            kind, name = REPLICA, _arena_name(mapping)
        if kind == ANONYMOUS:
            # Neighbours are one buffer that policies or protections have split.
            if last_anonymous is None or last_anonymous.end != extent.start:
                run = f"{extent.start:x}"
            last_anonymous, name = extent, run
        groups.setdefault((kind, name), []).append((mapping, extent))
    found = [_buffer(kind, name, parts, details) for (kind, name), parts in groups.items()]
    found += _scratch_buffers(scratch)
    return tuple(sorted(_small_put_together(found), key=lambda buffer: -buffer.bytes))


def _looks_like_an_arena(mapping: Mapping, details: MappingOf[int, Detail]) -> bool:
    detail = details.get(mapping.address)
    return detail is not None and detail.flags >= _REPLICA_FLAGS


def _arena_name(mapping: Mapping) -> str:
    """As the shim would have named it: after the nodes of its policy, "" where it has none."""
    return f"{REPLICA_PREFIX}node{format_list(_policy(mapping).nodes)}"


def _unknown_extent(mapping: Mapping) -> Extent:
    """What numa_maps alone tells, for a mapping that came or grew between two readings."""
    end = mapping.address + max(mapping.bytes, mapping.page_bytes)
    return Extent(mapping.address, end, "rw-p", name=mapping.path or "")


def _kind_and_name(mapping: Mapping, extent: Extent, code: set[str]) -> tuple[str, str]:
    if extent.given_name.startswith(REPLICA_PREFIX):
        return REPLICA, extent.given_name
    if mapping.heap or mapping.stack:
        return OTHER, ""
    path = mapping.path or (extent.name if extent.inode else "")
    if not path or path.startswith(("/anon_hugepage", "/dev/zero")):
        return ANONYMOUS, ""
    if is_weights_file(path):
        return WEIGHTS, path
    return (LIBRARY, "") if path in code else (FILE, path)


def _buffer(
    kind: str,
    name: str,
    parts: Sequence[tuple[Mapping, Extent]],
    details: MappingOf[int, Detail] | None,
) -> Buffer:
    largest, extent = max(parts, key=lambda part: part[0].bytes)
    shown = {
        ANONYMOUS: f"{parts[0][1].start:x}-{parts[-1][1].end:x}",
        LIBRARY: "programs and libraries",
        OTHER: "heap, stacks and small buffers",
        REPLICA: name,
    }.get(kind, largest.path or extent.name)
    return Buffer(
        kind=kind,
        name=shown,
        mapped=sum(extent.bytes for _, extent in parts),
        bytes_by_node=add_by_node(mapping.bytes_by_node for mapping, _ in parts),
        policy=_policy(largest),
        mapmax=max(mapping.mapmax for mapping, _ in parts),
        huge_bytes=None if details is None else _in_huge_pages([m for m, _ in parts], details),
        locked="lo" in (details or {}).get(largest.address, Detail()).flags,
    )


def _scratch_buffers(scratch: Sequence[Scratch]) -> Iterator[Buffer]:
    """One for each kind: how many pieces an engine makes of its cache is its own affair."""
    for kind, name in ((CACHE, "KV cache"), (COMPUTE, "compute buffers")):
        parts = [part for part in scratch if part.kind == kind]
        whole = all(part.asked * mmap.PAGESIZE >= part.bytes for part in parts)
        yield Buffer(
            kind,
            name,
            mapped=sum(part.bytes for part in parts),
            bytes_by_node=add_by_node(part.bytes_by_node for part in parts),
            asked=0 if whole else sum(part.asked for part in parts),
        )


def _in_huge_pages(mappings: Iterable[Mapping], details: MappingOf[int, Detail]) -> int:
    """Never more than the mappings hold, of which scratch was taken out."""
    return sum(
        mapping.bytes
        if mapping.huge
        else min(mapping.bytes, details.get(mapping.address, Detail()).huge_bytes)
        for mapping in mappings
    )


def _policy(mapping: Mapping) -> Policy:
    try:
        return parse_policy(mapping.policy)
    except ValueError:
        return Policy(mapping.policy)


def _small_put_together(buffers: Sequence[Buffer]) -> list[Buffer]:
    """Anonymous buffers and files below LARGE become part of OTHER; nothing is lost in the sum."""
    kept = [buffer for buffer in buffers if not _is_small(buffer)]
    small = [buffer for buffer in buffers if _is_small(buffer)]
    if small:
        kept.append(
            Buffer(
                OTHER,
                "heap, stacks and small buffers",
                sum(buffer.mapped for buffer in small),
                add_by_node(buffer.bytes_by_node for buffer in small),
            )
        )
    return [buffer for buffer in kept if buffer.bytes]


def _is_small(buffer: Buffer) -> bool:
    return buffer.kind in (ANONYMOUS, FILE, OTHER) and buffer.bytes < LARGE


def add_by_node(amounts: Iterable[MappingOf[int, int]]) -> dict[int, int]:
    """The sums per node, in id order."""
    sums: dict[int, int] = {}
    for amount in amounts:
        for node, count in amount.items():
            sums[node] = sums.get(node, 0) + count
    return dict(sorted(sums.items()))
