"""What watching costs an engine, in one process: blocks of work in turns with and without it.

Watched is what `observe` counts and asks the kernel for, and which experts --adapt counts before it
copies any. Off, every seam only passes on, as before an engine is known. The seconds are those of
the one thread that computes, and that also asks the kernel for pages: other programs do not count.
Twelve blocks are taken together, so that the question, a second or more after the last, is in each
value.
"""

from __future__ import annotations

from bench import engine
from bench.figures import RATIO, Figure, compared

OBSERVED = ("--observe", "--min-size", "1", "--report", "none")
# A budget in which no expert has room, and more tokens than are computed: nothing but counted.
COUNTED = (
    *("--rehearse", "2", "--copy-home", "--budget", "64K", "--adapt", str(1 << 20)),
    *("--min-size", "1", "--report", "none"),
)
STILL_COUNTED = "experts follow when"
SWITCH = "numamirror_test_set_engines"
TOGETHER = 12
KINDS = ("decode", "prefill")

describe = engine.describe


def measure(quick: bool) -> list[Figure]:
    """Ratios of rates: below 1, the watched engine is the slower one. Raises fetch.Unavailable."""
    dozens = 2 if quick else 6
    figures = []
    for name in engine.models():
        figures += watched(name, "observed", OBSERVED, dozens)
    return figures + watched(engine.MOE, "experts counted (--adapt)", COUNTED, dozens)


def watched(name: str, how: str, run_options: tuple[str, ...], dozens: int) -> list[Figure]:
    line = engine.run(
        engine.models()[name],
        TOGETHER * dozens,
        mirrored=True,
        alternate=True,
        threads=1,
        run_options=run_options,
        switch=SWITCH,
    )
    if run_options is COUNTED and STILL_COUNTED not in line["mirror"]["reason"]:
        raise SystemExit(f"bench: {name}: experts were not counted all the time")
    return [judge(f"{kind}, {name}: {how}", line["rates"][kind]) for kind in KINDS]


def judge(what: str, rates: dict[str, list[float]]) -> Figure:
    ours, plain = (together(rates[side]) for side in ("on", "off"))
    return compared(what, "tokens/s of CPU time", ours, "passed on", plain, RATIO, ">= 0.99")


def together(rates: list[float]) -> list[float]:
    """Of blocks of equal work, the rate of each dozen."""
    dozens = [rates[at : at + TOGETHER] for at in range(0, len(rates), TOGETHER)]
    return [len(dozen) / sum(1 / rate for rate in dozen) for dozen in dozens]
