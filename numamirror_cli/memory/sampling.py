"""Where a very large process's pages lie, from a sample: no walk over all its page tables.

Reading numa_maps makes the kernel visit every page while it holds the process's memory map, which
takes seconds at hundreds of GiB. move_pages(2) visits only the pages it is asked about. The
mappings are the strata: a first round asks a few pages of each, a second one gives most pages to
the mappings about which the first was least sure.
"""

from __future__ import annotations

import itertools
import math
import mmap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from numamirror_cli.memory import numa_maps
from numamirror_cli.memory.maps import Extent
from numamirror_cli.memory.pages import locate_pages, spread_addresses

# Processes larger than this are sampled: the walk takes some 20-40 ms per GiB of 4-KiB pages, and
# all that time the process can neither map nor unmap anything (bench/looking.py).
SAMPLE_ABOVE = 8 << 30
# Pages asked in the second round, all mappings together: enough for 0.4 % at worst, in about 0.1 s.
BUDGET = 65_536
# Pages asked of each mapping in the first round, and at least in the second.
_FIRST_ROUND = 32
_CONFIDENCE = 1.96  # 95 %


@dataclass(frozen=True)
class SampledMaps:
    """Mappings with estimated pages, and how far off the total of a node may be.

    asked: pages asked of the kernel. bound: bytes by which one node's sum may be wrong, at 95 %
    confidence.
    """

    mappings: tuple[numa_maps.Mapping, ...]
    asked: int
    bound: int


@dataclass(frozen=True)
class _Stratum:
    extent: Extent
    pages: int
    by_node: Mapping[int, int]
    absent: int
    asked: int

    @property
    def deviation(self) -> float:
        """Standard deviation of "this page is on that node", for the node that is least sure.

        Two imaginary pages of each answer keep a unanimous small sample from looking certain.
        """
        if self.asked >= self.pages:
            return 0.0
        counts = [*self.by_node.values(), self.absent]
        share = min(((c + 2) / (self.asked + 4) for c in counts), key=lambda s: abs(s - 0.5))
        return math.sqrt(share * (1 - share))


def sample_maps(
    pid: int, extents: Sequence[Extent], policy: str, resident: int, budget: int = BUDGET
) -> SampledMaps:
    """Estimate the pages of each mapping per node. Raises NumaMirrorError as locate_pages does.

    policy: what the mappings are said to have; their own can't be known without the walk.
    resident: bytes that the process has in memory, by the kernel's own count. budget: pages of
    the second round.
    """
    readable = [extent for extent in extents if extent.name != "[vsyscall]"]
    first = _ask(pid, readable, [_FIRST_ROUND] * len(readable))
    # Mappings in which nothing was found get no more pages: programs reserve terabytes that they
    # never touch. What they may hide is bounded by what the kernel says is in memory.
    holding = [stratum for stratum in first if stratum.by_node]
    unsure = [stratum.pages * stratum.deviation for stratum in holding]
    counts = [max(_FIRST_ROUND, int(budget * u / (sum(unsure) or 1.0))) for u in unsure]
    strata = _ask(pid, [stratum.extent for stratum in holding], counts)
    mappings = tuple(_estimate(stratum, policy) for stratum in strata)
    unseen = max(0, resident - sum(mapping.bytes for mapping in mappings))
    return SampledMaps(
        mappings=mappings,
        asked=sum(stratum.asked for stratum in [*first, *strata]),
        bound=_bound(strata) + unseen,
    )


def _ask(pid: int, extents: Sequence[Extent], counts: Sequence[int]) -> list[_Stratum]:
    """Ask for that many pages of each mapping, all in one go."""
    addresses = [
        spread_addresses(extent.start, extent.end, count, mmap.PAGESIZE)
        for extent, count in zip(extents, counts, strict=True)
    ]
    answers = iter(locate_pages(pid, list(itertools.chain.from_iterable(addresses))))
    return [
        _Stratum(extent, extent.bytes // mmap.PAGESIZE, *_count(itertools.islice(answers, n)), n)
        for extent, n in zip(extents, map(len, addresses), strict=True)
    ]


def _count(statuses: Iterable[int]) -> tuple[dict[int, int], int]:
    """Pages per node, and pages that are on none."""
    counts = Counter(status if status >= 0 else -1 for status in statuses)
    elsewhere = counts.pop(-1, 0)
    return dict(sorted(counts.items())), elsewhere


def _estimate(stratum: _Stratum, policy: str) -> numa_maps.Mapping:
    scale = stratum.pages / stratum.asked if stratum.asked else 0
    extent = stratum.extent
    return numa_maps.Mapping(
        address=extent.start,
        policy=policy,
        path=extent.name if extent.inode else None,
        huge=extent.name.startswith("/anon_hugepage"),
        heap=extent.name == "[heap]",
        stack=extent.name == "[stack]",
        pages_by_node={n: round(count * scale) for n, count in stratum.by_node.items()},
        page_bytes=mmap.PAGESIZE,
    )


def _bound(strata: Sequence[_Stratum]) -> int:
    """The error of a stratified sum: the strata's variances add up (Cochran, ch. 5)."""
    variance = sum(
        (stratum.pages * stratum.deviation) ** 2
        / stratum.asked
        * (1 - stratum.asked / stratum.pages)
        for stratum in strata
        if stratum.asked
    )
    return round(_CONFIDENCE * math.sqrt(variance)) * mmap.PAGESIZE
