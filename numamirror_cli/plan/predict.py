"""From bytes and bandwidth to tokens a second. docs/model.md explains each step by hand.

The model: a token takes the time to read its weights, which the placement decides, and a fixed
part (arithmetic, waiting for each other, GPUs, the rest of the engine), which it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from numamirror_cli.plan.bandwidth import Bandwidth
from numamirror_cli.plan.layout import NONE, Layout, first_touch_layouts, layout

# The fixed part lies between 0 and this many times the best reading time (all nodes reading their
# own memory). On public figures it was 0.3 to 1.5 times for engines on CPUs alone; with a part of
# the model on GPUs, whose time is in it too, up to 4 times.
FIXED_CPU = 1.5
FIXED_WITH_GPU = 4.0


@dataclass(frozen=True)
class Range:
    """low to high, of whatever the name says."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Reader:
    """A machine that reads.

    cores: of each node. threads: of the engine, spread over the cores of the nodes that work;
    None where they are as many as the cores.
    """

    bandwidth: Bandwidth
    cores: Mapping[int, int]
    home: int
    threads: int | None = None

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(self.cores)

    def share(self, node: int, workers: Sequence[int]) -> float:
        """Of the threads, how many run on that node when these nodes work."""
        return self.cores[node] / sum(self.cores[worker] for worker in workers)

    def rate(self, reader: int, memory: int, workers: Sequence[int]) -> float:
        """GB/s at which the threads of a node read from a node, when these nodes work."""
        if self.threads is None:
            return self.bandwidth.rate(reader, memory)
        there = min(self.threads * self.share(reader, workers), self.cores[reader])
        return self.bandwidth.rate(reader, memory, there)


@dataclass(frozen=True)
class Measured:
    """A rate that the user measured: tokens a second under a strategy."""

    strategy: str
    tokens_per_second: float


def read_seconds(placed: Layout, gigabytes: float, machine: Reader) -> Range:
    """Seconds to read that many GB (10^9 bytes) per token.

    low: the engine's threads take the next piece when they are done (chunks are stolen), high:
    each has its fixed part (llama.cpp under --numa). Both are held up by a node whose memory is
    asked for more than it can give.
    """
    pace = {reader: _pace(placed, reader, machine) for reader in placed.readers}
    whole = sum(pace.values())
    stolen = {reader: rate / whole for reader, rate in pace.items()}
    fixed = {reader: machine.share(reader, placed.readers) for reader in pace}
    times = [_slowest(placed, work, pace, machine) * gigabytes for work in (stolen, fixed)]
    return Range(min(times), max(times))


def _pace(placed: Layout, reader: int, machine: Reader) -> float:
    """GB/s at which a node's threads read their mixture of memories, one after the other."""
    workers, shares = placed.readers, placed.reads[reader].items()
    return 1 / sum(share / machine.rate(reader, memory, workers) for memory, share in shares)


def _slowest(
    placed: Layout, work: Mapping[int, float], pace: Mapping[int, float], machine: Reader
) -> float:
    """Seconds per GB until the last reader and the busiest memory are done."""
    readers = [share / pace[reader] for reader, share in work.items()]
    memories: dict[int, float] = {}
    for reader, share in work.items():
        for memory, part in placed.reads[reader].items():
            memories[memory] = memories.get(memory, 0.0) + share * part
    own = [share / machine.bandwidth.rate(node, node) for node, share in memories.items()]
    return max(*readers, *own)


def reading_time(strategy: str, gigabytes: float, machine: Reader, coverage: float = 1.0) -> Range:
    """Seconds per token that a strategy spends reading; for none, of all that it may become."""
    if strategy == NONE:
        placed: Sequence[Layout] = first_touch_layouts(machine.nodes, machine.home)
    else:
        placed = [layout(strategy, machine.nodes, machine.home, coverage)]
    return _around(read_seconds(each, gigabytes, machine) for each in placed)


def best_reading_time(gigabytes: float, machine: Reader) -> float:
    """Seconds per token when every node reads its own memory, the measure of the fixed part."""
    nodes = machine.nodes
    return gigabytes / sum(machine.rate(node, node, nodes) for node in nodes)


def predict(
    strategy: str, gigabytes: float, machine: Reader, fixed: float, coverage: float = 1.0
) -> Range:
    """Tokens a second: high with no fixed part, low with `fixed` times the best reading time."""
    reading = reading_time(strategy, gigabytes, machine, coverage)
    most = fixed * best_reading_time(gigabytes, machine)
    return Range(1 / (reading.high + most), 1 / reading.low)


def compare(
    strategy: str, other: str, machine: Reader, fixed: float, coverage: float = 1.0
) -> Range:
    """How many times as fast as the other a strategy is, whatever the model's size. coverage: of
    the mirror, on whichever side it is."""
    ours = reading_time(strategy, 1.0, machine, coverage)
    theirs = reading_time(other, 1.0, machine, coverage)
    return times_as_fast(ours, theirs, fixed * best_reading_time(1.0, machine))


def times_as_fast(ours: Range, theirs: Range, most: float) -> Range:
    """The ratio of two speeds, given their reading times and the largest fixed part of both, in
    seconds."""
    ratios = [
        (their + part) / (our + part)
        for part in (0.0, most)
        for our in (ours.low, ours.high)
        for their in (theirs.low, theirs.high)
    ]
    return Range(min(ratios), max(ratios))


def predict_from(
    measured: Measured, strategy: str, gigabytes: float, machine: Reader, coverage: float = 1.0
) -> Range:
    """Tokens a second of a strategy, given what another one was measured to give.

    What reading does not explain of the measured time is taken once as a fixed part that stays,
    and once as an efficiency that slows all reading alike; the truth has been between the two.
    """
    before = reading_time(measured.strategy, gigabytes, machine, coverage)
    after = reading_time(strategy, gigabytes, machine, coverage)
    if strategy == measured.strategy:
        return Range(measured.tokens_per_second, measured.tokens_per_second)
    whole = 1 / measured.tokens_per_second
    times = []
    for was in (before.low, before.high):
        for will_be in (after.low, after.high):
            times.append(will_be + max(0.0, whole - was))
            times.append(whole * will_be / was)
    return Range(1 / max(times), 1 / min(times))


def is_faster_than_memory(measured: Measured, gigabytes: float, machine: Reader) -> bool:
    """The measured rate cannot be: its bytes would not have been read in that time."""
    fastest = reading_time(measured.strategy, gigabytes, machine).low
    return 1 / measured.tokens_per_second < fastest


def _around(ranges: Iterable[Range]) -> Range:
    there = list(ranges)
    return Range(min(each.low for each in there), max(each.high for each in there))
