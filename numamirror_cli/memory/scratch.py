"""The memory in which an engine computes and keeps its caches, told apart from the rest.

Nothing in a mapping's name says what is in it. The shim hears from the engine which of its memory
is for computing, and sees to which other memory its ops write; where that lies is asked of the
kernel here.
"""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace

from numamirror_cli.memory.maps import Extent
from numamirror_cli.memory.numa_maps import Mapping
from numamirror_cli.memory.pages import locate_pages, spread_addresses
from numamirror_cli.memory.status_page import EngineBuffer

# Pages asked of each buffer: all of them up to 64 MiB, and a node's share to 0.8 % (95 %) above.
_MOST_PAGES = 16_384


@dataclass(frozen=True)
class Scratch:
    """Part of an engine's buffer that lies in one mapping, which begins at `mapping`.

    kind: "cache" or "compute". bytes: of address space. bytes_by_node: in memory, estimated from
    `asked` pages where the part has more.
    """

    kind: str
    mapping: int
    bytes: int
    bytes_by_node: MappingOf[int, int]
    asked: int


def find_scratch(
    pid: int, buffers: Iterable[EngineBuffer], extents: Sequence[Extent]
) -> tuple[Scratch, ...]:
    """Where the pages of those buffers lie. Raises NumaMirrorError as locate_pages does."""
    parts = [part for buffer in buffers for part in _parts(buffer, extents)]
    return tuple(_located(pid, *part) for part in parts)


def without_scratch(mappings: Iterable[Mapping], scratch: Sequence[Scratch]) -> Iterator[Mapping]:
    """The mappings less what the scratch in them holds, so that nothing is counted twice."""
    for mapping in mappings:
        inside = [part for part in scratch if part.mapping == mapping.address]
        yield _less(mapping, inside) if inside else mapping


def _parts(
    buffer: EngineBuffer, extents: Sequence[Extent]
) -> Iterator[tuple[str, Extent, int, int]]:
    """(kind, mapping, start, end), in whole pages; memory that is gone has no mapping."""
    page = mmap.PAGESIZE
    low = buffer.start // page * page
    high = -(-(buffer.start + buffer.bytes) // page) * page
    for extent in extents:
        start, end = max(low, extent.start), min(high, extent.end)
        if start < end:
            yield buffer.kind, extent, start, end


def _located(pid: int, kind: str, extent: Extent, start: int, end: int) -> Scratch:
    addresses = spread_addresses(start, end, _MOST_PAGES, mmap.PAGESIZE)
    counts = Counter(node for node in locate_pages(pid, addresses) if node >= 0)
    scale = (end - start) / len(addresses)
    by_node = {node: round(count * scale) for node, count in sorted(counts.items())}
    return Scratch(kind, extent.start, end - start, by_node, len(addresses))


def _less(mapping: Mapping, inside: Sequence[Scratch]) -> Mapping:
    taken: Counter[int] = Counter()
    for part in inside:
        taken.update(part.bytes_by_node)
    left = {
        node: max(0, pages - round(taken[node] / mapping.page_bytes))
        for node, pages in mapping.pages_by_node.items()
    }
    return replace(mapping, pages_by_node=left)
