"""Tokens per second with the shim against without: in one process, and in whole ones."""

from __future__ import annotations

import statistics
from typing import Any

from bench import engine
from bench.figures import DIFFERENCE, RATIO, Figure, compared

GOAL = ">= 0.995"
KINDS = ("decode", "prefill")

describe = engine.describe


def measure(quick: bool) -> list[Figure]:
    """Ratios of rates: above 1, the mirror is the faster one. Raises fetch.Unavailable."""
    figures = []
    for name in engine.models():
        for threads in (2, 1):
            figures += in_one_process(name, 4 if quick else 40, threads, engine.COPIES)
        # Two copies share this node's caches, where the engine alone has one in them. One copy for
        # both threads takes that away, and leaves all that the seams do.
        figures += in_one_process(name, 4 if quick else 40, 2, 1)
    for name in engine.models():
        figures += whole_processes(name, 2 if quick else 8)
    return figures


def in_one_process(name: str, blocks: int, threads: int, copies: int) -> list[Figure]:
    """Blocks that alternate between the replicas and the primary."""
    line = engine.run(
        engine.models()[name],
        blocks,
        mirrored=True,
        alternate=True,
        threads=threads,
        copies=copies,
    )
    check(name, line["mirror"], copies)
    said = "2 threads" if threads == 2 else "1 thread, its CPU time"
    read = "replicas" if copies > 1 else "one replica for both"
    return [
        compared(
            f"{kind}, {name}, {said}: {read}",
            "tokens/s",
            line["rates"][kind]["on"],
            "primary, same process",
            line["rates"][kind]["off"],
            RATIO,
            GOAL,
        )
        for kind in KINDS
    ]


def check(name: str, held: dict[str, Any], copies: int) -> None:
    """That there is something to compare: all weights mirrored, experts read row by row."""
    if held["copies"] != copies:
        raise SystemExit(f"bench: {name}: {held['copies']} replicas instead of {copies}")
    if held["mirrored_bytes"] != held["gemm_bytes"]:
        raise SystemExit(f"bench: {name}: not all weights were mirrored")
    if name == engine.MOE and held["row_hits"] == 0:
        raise SystemExit(f"bench: {name}: no row of an expert came by ggml_vec_dot")


def whole_processes(name: str, pairs: int) -> list[Figure]:
    """Each process loads the model and gives the median of a few blocks, of one thread's time."""
    lines: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for number in range(pairs):
        for mirrored in (True, False) if number % 2 == 0 else (False, True):
            lines[mirrored].append(
                engine.run(engine.models()[name], 5, mirrored=mirrored, threads=1)
            )
    ours, plain = lines[True], lines[False]
    against = "started as it is"
    figures = [
        compared(
            f"{kind}, {name}, 1 thread, whole processes: under numamirror run",
            "tokens/s",
            [statistics.median(line["rates"][kind]["on"]) for line in ours],
            against,
            [statistics.median(line["rates"][kind]["on"]) for line in plain],
            RATIO,
        )
        for kind in KINDS
    ]
    mirrored_mib = ours[0]["mirror"]["mirrored_bytes"] >> 20
    what = f"first token, {name}: with {engine.COPIES} replicas of {mirrored_mib} MiB built"
    first = [[1000 * line["first_s"] for line in side] for side in (ours, plain)]
    return [*figures, compared(what, "ms", first[0], against, first[1], DIFFERENCE)]
