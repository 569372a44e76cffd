"""How fast replicas are built: against one thread's memcpy, and the best plain parallel copy."""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from bench import programs
from bench.figures import RATIO, Figure, alone, compared

OURS, ONE_THREAD = "replica", "one thread"
# What a mapped file is not compared with: it is there to show what the disk would give.
PAST_THE_CACHE = "all threads, read past the cache"
FILE_MIB = 512


@dataclass(frozen=True)
class Source:
    """kind and words: for bench/native/replica.c; mib of it are copied."""

    name: str
    kind: str
    mib: int
    rounds: int
    words: tuple[str, ...] = ()


SOURCES = (
    Source("anonymous memory", "anonymous", FILE_MIB, 14),
    Source("a mapped file in the page cache", "cached", FILE_MIB, 16),
    Source("a cold mapped file", "cold", FILE_MIB, 10),
    Source("a cold file, mapped with MADV_RANDOM", "cold", FILE_MIB // 4, 12, ("random",)),
)


def measure(quick: bool) -> list[Figure]:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="numamirror-bench", dir=programs.build()) as scratch:
        file = Path(scratch) / "weights"
        write_random(file, FILE_MIB)
        for source in SOURCES:
            words = () if source.kind == "anonymous" else (str(file), *source.words)
            figures += judge(source, *rates(source, 2 if quick else source.rounds, words))
    return figures


def write_random(file: Path, mib: int) -> None:
    with Path("/dev/urandom").open("rb") as random, file.open("wb") as out:
        for _ in range(mib):
            out.write(random.read(1 << 20))


Rates = dict[str, list[float]]


def rates(source: Source, rounds: int, words: tuple[str, ...]) -> tuple[Rates, Rates]:
    """Way of copying -> GiB/s of each round but the first, which meets untouched memory; and GiB
    for each second of CPU time, which other programs do not hold up."""
    on_the_clock: Rates = defaultdict(list)
    of_cpu: Rates = defaultdict(list)
    lines = programs.run("replica", source.kind, rounds + 1, source.mib, *words)
    for line in lines.splitlines():
        way, rate, cpu_rate = line.split("\t")
        on_the_clock[way].append(float(rate))
        of_cpu[way].append(float(cpu_rate))
    return without_first(on_the_clock), without_first(of_cpu)


def without_first(rates: Rates) -> Rates:
    return {way: values[1:] for way, values in rates.items()}


def judge(source: Source, on_the_clock: Rates, of_cpu: Rates) -> list[Figure]:
    figures = against_plain(f"replica from {source.name}", "GiB/s", on_the_clock)
    if source.kind != "cold":  # where the disk decides, and not the CPU
        figures += against_plain(
            f"replica from {source.name}, by CPU time", "GiB for each CPU second", of_cpu
        )
    others = (way for way in on_the_clock if way != OURS)
    return figures + [alone(f"{source.name}: {way}", "GiB/s", on_the_clock[way]) for way in others]


def against_plain(what: str, unit: str, rates: Rates) -> list[Figure]:
    plain = {way: r for way, r in rates.items() if way.startswith("all") and way != PAST_THE_CACHE}
    best = max(plain, key=lambda way: statistics.median(plain[way]))
    one_thread = [] if "CPU" in unit else [(ONE_THREAD, rates[ONE_THREAD], ">= 2")]
    pairs = [*one_thread, (f"best plain copy: {best}", rates[best], ">= 0.9")]
    return [
        compared(what, unit, rates[OURS], against, theirs, RATIO, goal)
        for against, theirs, goal in pairs
    ]
