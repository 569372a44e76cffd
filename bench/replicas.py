"""How fast replicas are built: against one thread's memcpy, and the best plain parallel copy."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from bench import programs
from bench.figures import RATIO, Figure, alone, compared

ONE_THREAD = "one thread"
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
    Source("a cold mapped file", "cold", FILE_MIB, 8),
    Source("a cold file, mapped with MADV_RANDOM", "cold", FILE_MIB // 4, 6, ("random",)),
)


def measure(quick: bool) -> list[Figure]:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="numamirror-bench", dir=programs.build()) as scratch:
        file = Path(scratch) / "weights"
        write_random(file, FILE_MIB)
        for source in SOURCES:
            words = () if source.kind == "anonymous" else (str(file), *source.words)
            figures += judge(source.name, rates(source, 2 if quick else source.rounds, words))
    return figures


def write_random(file: Path, mib: int) -> None:
    with Path("/dev/urandom").open("rb") as random, file.open("wb") as out:
        for _ in range(mib):
            out.write(random.read(1 << 20))


def rates(source: Source, rounds: int, words: tuple[str, ...]) -> dict[str, list[float]]:
    """Way of copying -> GiB/s of each round but the first, which meets untouched memory."""
    values: dict[str, list[float]] = defaultdict(list)
    lines = programs.run("replica", source.kind, rounds + 1, source.mib, *words)
    for line in lines.splitlines():
        way, rate = line.split("\t")
        values[way].append(float(rate))
    return {way: rates[1:] for way, rates in values.items()}


def judge(source: str, rates: dict[str, list[float]]) -> list[Figure]:
    ours = rates.pop("replica")
    plain = {way: r for way, r in rates.items() if way.startswith("all") and way != PAST_THE_CACHE}
    best = max(plain, key=lambda way: sum(plain[way]))
    what = f"replica from {source}"
    return [
        compared(what, "GiB/s", ours, ONE_THREAD, rates[ONE_THREAD], RATIO, ">= 2"),
        compared(what, "GiB/s", ours, f"best plain copy: {best}", rates[best], RATIO, ">= 0.9"),
        *(alone(f"{source}: {way}", "GiB/s", r) for way, r in rates.items() if way != best),
    ]
