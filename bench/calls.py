"""What a seam adds to a call: nanoseconds, and instructions where valgrind is there to count."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from bench import programs
from bench.figures import DIFFERENCE, Figure, alternate, compared

# Kind of call -> what it is, and the goal in ns.
KINDS = {
    "other-op": ("an op that is no multiplication", "<= 15"),
    "mul_mat": ("MUL_MAT, read from a replica", "<= 15"),
    "mul_mat-extra": ("MUL_MAT of repacked weights", "<= 15"),
    "mul_mat_id-tiled": ("MUL_MAT_ID, with one expert's call", "<= 30"),
    "vec_dot": ("a row of MUL_MAT_ID (vec_dot)", "<= 2"),
}
CALLS, BLOCKS = 1_000_000, 5


def measure(quick: bool) -> list[Figure]:
    rounds = 3 if quick else 15
    figures = []
    for kind, (what, goal) in KINDS.items():
        ways = {"with": lambda k=kind: nanoseconds(k, shim=True)}
        ways["without"] = lambda k=kind: nanoseconds(k, shim=False)
        values = alternate(rounds, ways)
        figures.append(
            compared(
                f"ns: {what}",
                "ns",
                values["with"],
                "without the shim",
                values["without"],
                DIFFERENCE,
                goal,
            )
        )
    return figures + (instructions() if programs.valgrind() else [])


def nanoseconds(kind: str, shim: bool) -> float:
    """CPU time of one call: the least of a few blocks."""
    lines = programs.run("per_call", kind, CALLS, BLOCKS, env=environment(shim))
    return min(map(float, lines.split()))


def environment(shim: bool) -> dict[str, str]:
    return programs.ONE_REPLICA | ({"LD_PRELOAD": str(programs.shim())} if shim else {})


def instructions() -> list[Figure]:
    """Counted, not timed: the same on a busy machine."""
    figures = []
    for kind, (what, _) in KINDS.items():
        ours, other = count(kind, shim=True), count(kind, shim=False)
        figures.append(
            compared(
                f"instructions: {what}",
                "instructions",
                [ours],
                "without the shim",
                [other],
                DIFFERENCE,
            )
        )
    return figures


def count(kind: str, shim: bool) -> float:
    """Instructions of one call: what 20,000 more of them add to a whole run."""
    few, many = (collected(kind, calls, shim) for calls in (10_000, 30_000))
    return (many - few) / 20_000


def collected(kind: str, calls: int, shim: bool) -> int:
    program = str(programs.build() / "per_call")
    valgrind = [str(programs.valgrind()), "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    done = subprocess.run(
        [*valgrind, program, kind, str(calls), "1"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment(shim),
        cwd=Path("/"),
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    return int(found[1]) if found else 0
