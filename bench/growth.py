"""What grows with the model: finding a weight, and mirroring many or large ones."""

from __future__ import annotations

from collections import defaultdict

from bench import programs
from bench.figures import Figure, alone

WEIGHTS = (10, 1_000, 20_000)
SIZES_MIB = (64, 256, 1024)


def measure(quick: bool) -> list[Figure]:
    rounds = 3 if quick else 11
    return [
        *(figure for weights in WEIGHTS for figure in lookups(weights, rounds)),
        *(build(weights, 64, rounds) for weights in WEIGHTS),
        *(build(300, mib, rounds) for mib in SIZES_MIB),
    ]


def lookups(weights: int, rounds: int) -> list[Figure]:
    values: dict[str, list[float]] = defaultdict(list)
    for line in programs.run("growth", "lookup", weights, rounds).splitlines():
        order, ns = line.split("\t")
        values[order].append(float(ns))
    return [
        alone(f"finding one of {weights:,} weights, {order}", "ns", ns)
        for order, ns in values.items()
    ]


def build(weights: int, mib: int, rounds: int) -> Figure:
    """The first round meets untouched memory, and is left out."""
    lines = programs.run("growth", "build", weights, mib, rounds + 1).split("\n")
    values = [float(line.split("\t")[1]) for line in lines if line]
    return alone(f"mirroring {weights:,} weights of {mib} MiB in all", "ms", values[1:])
