"""The tables in docs/performance.md, made from bench/results/*.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.figures import RESULTS, Figure, load
from bench.measurements import MEASUREMENTS
from bench.programs import REPOSITORY
from bench.text import HEADINGS, cells

PAGE = REPOSITORY / "docs" / "performance.md"
BEGIN, END = "<!-- tables: made by `make bench` -->\n", "<!-- end of tables -->\n"


def write() -> None:
    """Replace what lies between the markers. Raises ValueError when the page has none."""
    text = PAGE.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE}: the lines {BEGIN.strip()} and {END.strip()} are missing")
    PAGE.write_text(before + begin + tables() + end + after)


def tables() -> str:
    measured = [name for name in MEASUREMENTS if (RESULTS / f"{name}.json").exists()]
    return "".join(section(MEASUREMENTS[name], *load(name)) for name in measured)


def section(title: str, facts: Mapping[str, Any], figures: Sequence[Figure]) -> str:
    """One heading, the facts that go with every figure, and the table."""
    said = ", ".join(f"{key} {value}" for key, value in facts.items())
    rows = [HEADINGS, ("---",) * len(HEADINGS), *map(cells, figures)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return f"\n### {title}\n\n{said}\n\n" + "\n".join(lines) + "\n\n"
