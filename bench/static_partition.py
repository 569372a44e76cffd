"""What a fixed division of rows costs by itself: on one node, where shard gains nothing.

Fixed rows and stolen chunks alternate in one process; once alone, once beside a program that keeps
one CPU busy, since a thread that is held up is then helped by nobody.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from bench import engine
from bench.figures import RATIO, Figure, compared

# As a rehearsal no thread is bound and no page is moved: the division is all that differs.
SHARDED = (
    *("--rehearse", "2", "--strategy", "shard"),
    *("--min-size", "1", "--report", "none"),
)
SWITCH = "numamirror_test_set_static"
KINDS = ("decode", "prefill")

describe = engine.describe


def measure(quick: bool) -> list[Figure]:
    """Ratios of rates: below 1, fixed rows are the slower ones. Raises fetch.Unavailable."""
    figures = []
    for name in engine.models():
        figures += in_one_process(name, 4 if quick else 24, "alone")
    with a_busy_program():
        figures += in_one_process(engine.MOE, 2 if quick else 8, "beside a busy program")
    return figures


@contextlib.contextmanager
def a_busy_program() -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            yield
        finally:
            busy.kill()


def in_one_process(name: str, blocks: int, where: str) -> list[Figure]:
    rates = engine.run(
        engine.models()[name],
        blocks,
        mirrored=True,
        alternate=True,
        run_options=SHARDED,
        switch=SWITCH,
    )["rates"]
    return [
        compared(
            f"{kind}, {name}, {where}: fixed rows",
            "tokens/s",
            rates[kind]["on"],
            "stolen chunks, same process",
            rates[kind]["off"],
            RATIO,
        )
        for kind in KINDS
    ]
