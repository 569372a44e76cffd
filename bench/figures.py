"""What a measurement found: values of alternating runs, what they were compared with, the goal."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"

# What is judged: ours by the other's, measured one after the other; ours less the other's; ours.
RATIO, DIFFERENCE, ALONE = "ratio", "difference", "alone"


@dataclass(frozen=True)
class Spread:
    """Median, least and greatest of `count` values.

    low, high: between them lies the median of what was measured, 19 times in 20.
    """

    median: float
    min: float
    max: float
    count: int
    low: float
    high: float


@dataclass(frozen=True)
class Figure:
    """One row of a table.

    kind: what is judged, RATIO or DIFFERENCE of pairs of runs (in `result`), or our value ALONE,
    beside which the other's may stand for comparison.
    goal: such as ">= 0.995" or "<= 15", of the median of what is judged; "" without one.
    """

    what: str
    unit: str
    ours: Spread
    against: str = ""
    other: Spread | None = None
    kind: str = ALONE
    result: Spread | None = None
    goal: str = ""

    @property
    def judged(self) -> Spread:
        return self.result or self.ours

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None without a goal."""
        if not self.goal:
            return None
        sign, limit = self.goal.split()
        value = self.judged.median
        return value >= float(limit) if sign == ">=" else value <= float(limit)


def spread(values: Sequence[float]) -> Spread:
    low, high = interval(values)
    return Spread(statistics.median(values), min(values), max(values), len(values), low, high)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % confidence interval of the median, whatever the values' distribution.

    Each value lies above the true median with a chance of one half, so that the binomial
    distribution says how many of the ordered values may be cut off on each side. Fewer than six
    values cannot exclude anything: least and greatest.
    """
    ordered, count = sorted(values), len(values)
    cut, below = 0, 0.5**count
    while below + math.comb(count, cut + 1) * 0.5**count <= 0.025:
        cut += 1
        below += math.comb(count, cut) * 0.5**count
    if below > 0.025:
        return ordered[0], ordered[-1]
    return ordered[cut], ordered[count - 1 - cut]


def alone(what: str, unit: str, values: Sequence[float], goal: str = "") -> Figure:
    return Figure(what, unit, spread(values), goal=goal)


def compared(
    what: str,
    unit: str,
    ours: Sequence[float],
    against: str,
    others: Sequence[float],
    kind: str = RATIO,
    goal: str = "",
) -> Figure:
    """Of runs that alternated: ours[i] and others[i] were measured one after the other."""
    pairs = list(zip(ours, others, strict=True))
    results = [a / b if kind == RATIO else a - b for a, b in pairs]
    judged = None if kind == ALONE else spread(results)
    return Figure(what, unit, spread(ours), against, spread(others), kind, judged, goal)


def alternate(rounds: int, ways: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Runs each way once per round, back and forth, so that a drift meets all of them alike."""
    values: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for name in list(ways)[:: 1 if number % 2 == 0 else -1]:
            values[name].append(ways[name]())
    return values


def save(name: str, machine: Mapping[str, Any], figures: Sequence[Figure]) -> Path:
    """Writes results/NAME.json, with `met` beside each goal for whoever reads it."""
    RESULTS.mkdir(exist_ok=True)
    rows = [asdict(figure) | {"met": figure.met} for figure in figures]
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine, "figures": rows}, indent=1) + "\n")
    return path


def load(name: str) -> tuple[dict[str, Any], list[Figure]]:
    """What `save` wrote. Raises FileNotFoundError when that was never measured."""
    document = json.loads((RESULTS / f"{name}.json").read_text())
    return document["machine"], [_figure(row) for row in document["figures"]]


def _figure(row: dict[str, Any]) -> Figure:
    fields = {key: value for key, value in row.items() if key != "met"}
    for key in ("ours", "other", "result"):
        fields[key] = Spread(**row[key]) if row[key] else None
    return Figure(**fields)
