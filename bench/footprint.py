"""What a mirror takes: bytes of replicas, mappings, and the shim's own memory."""

from __future__ import annotations

from typing import Any

from bench import engine, programs
from bench.figures import Figure, alone, compared

MIB = 1 << 20

describe = engine.describe


def measure(quick: bool) -> list[Figure]:
    """Counted, not timed. Raises fetch.Unavailable."""
    del quick
    figures, own = [], 0
    for name, path in engine.models().items():
        held = engine.run(path, 1, mirrored=True)["mirror"]
        figures += replicas(name, held)
        own = max(own, sum(held["mappings"][kind]["Rss"] for kind in ("library", "status page")))
    heap = int(programs.run("growth", "heap", 1000))
    return [
        *figures,
        alone("the shim itself, resident: library and status page", "KiB", [own / 1024]),
        alone("the shim's heap for each weight", "bytes", [heap / 1000]),
    ]


def replicas(name: str, held: dict[str, Any]) -> list[Figure]:
    """Resident bytes of one copy against the bytes that GEMM reads."""
    mapped, copies = held["mappings"]["replicas"], held["copies"]
    resident, gemm = mapped["Rss"] / copies / MIB, held["gemm_bytes"] / MIB
    huge = 100 * mapped["AnonHugePages"] / mapped["Rss"]
    what = f"a replica of {name}"
    return [
        compared(f"{what}, resident", "MiB", [resident], "GEMM bytes", [gemm], goal="<= 1.01"),
        alone(f"{what}: in huge pages", "%", [huge]),
        alone(f"{what}: mappings added", "mappings", [mapped["count"] / copies], "<= 4"),
    ]
