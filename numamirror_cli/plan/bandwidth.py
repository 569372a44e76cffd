"""How fast nodes read memory: a matrix, measured by `numamirror bench` or given by hand.

GB/s here is 10^9 bytes a second, as memory is sold and as others publish it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from numamirror_cli.errors import NumaMirrorError

Pair = tuple[int, int]


@dataclass(frozen=True)
class Bandwidth:
    """read: GB/s by (reading node, node of the memory), all cores of the reading node together.

    one_thread: the same for a single thread; empty when unknown. source: where the figures are
    from, as a phrase.
    """

    read: Mapping[Pair, float]
    source: str
    one_thread: Mapping[Pair, float] = field(default_factory=dict)

    def rate(self, reader: int, memory: int, threads: float = math.inf) -> float:
        """GB/s at which that many threads of a node read from a node."""
        whole = self.read[reader, memory]
        single = self.one_thread.get((reader, memory))
        return whole if single is None else min(whole, threads * single)

    def covers(self, nodes: Iterable[int]) -> bool:
        """There is a figure for each pair of those nodes."""
        there = tuple(nodes)
        return all((reader, memory) in self.read for reader in there for memory in there)


def bandwidth_by_hand(text: str, nodes: Iterable[int]) -> Bandwidth:
    """ "local=137,remote=47.7": GB/s of one node's cores reading their own memory and another's.

    Raises NumaMirrorError (exit 2) for any other form, and for a figure that is not above 0.
    """
    figures: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        figures[name.strip()] = _positive(value)
    if set(figures) != {"local", "remote"} or not all(figures.values()):
        raise NumaMirrorError(
            f"--bandwidth {text}: not of the form local=137,remote=47.7",
            hint="GB/s of all cores of one node, reading their own memory and another node's",
            exit_code=2,
        )
    there = tuple(nodes)
    read = {(r, m): figures["local" if r == m else "remote"] for r in there for m in there}
    return Bandwidth(read, f"--bandwidth {text}")


def _positive(text: str) -> float:
    """The number, or 0 where there is none that makes sense."""
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if 0 < number < math.inf else 0.0
