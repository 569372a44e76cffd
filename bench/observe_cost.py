"""What observing costs an engine, in one process: blocks of work in turns with and without it.

Off, every seam only passes on, as before an engine is known. The seconds are those of the one
thread that computes, and that also asks the kernel for pages: other programs do not count. Twelve
blocks are taken together, so that the question, a second or more after the last, is in each value.
"""

from __future__ import annotations

from bench import engine
from bench.figures import RATIO, Figure, compared

OBSERVED = ("--observe", "--min-size", "1", "--report", "none")
SWITCH = "numamirror_test_set_engines"
TOGETHER = 12
KINDS = ("decode", "prefill")

describe = engine.describe


def measure(quick: bool) -> list[Figure]:
    """Ratios of rates: below 1, the observed engine is the slower one. Raises fetch.Unavailable."""
    figures = []
    for name, model in engine.models().items():
        rates = engine.run(
            model,
            TOGETHER * (2 if quick else 8),
            mirrored=True,
            alternate=True,
            threads=1,
            run_options=OBSERVED,
            switch=SWITCH,
        )["rates"]
        figures += [judge(kind, name, rates[kind]) for kind in KINDS]
    return figures


def judge(kind: str, name: str, rates: dict[str, list[float]]) -> Figure:
    observed, plain = (together(rates[side]) for side in ("on", "off"))
    what = f"{kind}, {name}: observed"
    return compared(what, "tokens/s of CPU time", observed, "passed on", plain, RATIO, ">= 0.99")


def together(rates: list[float]) -> list[float]:
    """Of blocks of equal work, the rate of each dozen."""
    dozens = [rates[at : at + TOGETHER] for at in range(0, len(rates), TOGETHER)]
    return [len(dozen) / sum(1 / rate for rate in dozen) for dozen in dozens]
