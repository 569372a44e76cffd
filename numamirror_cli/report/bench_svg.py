"""The bench's matrices as a picture: readers in rows, memories in columns, the best is darkest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numamirror_cli.plan.bench_result import BenchResult, Cell
from numamirror_cli.report.bench import LEGEND, QUANTITIES, Quantity, condition_lines, figure
from numamirror_cli.report.svg import (
    EDGE,
    FAINT,
    HEAT,
    INK,
    LETTER,
    LINE,
    PAPER,
    Block,
    document,
    rectangle,
    stack,
    text,
)

# Lengths in pixels.
CELL_WIDTH, CELL_HEIGHT = 58, 34
LEFT, TOP, GAP = 66, 50, 26


def bench_svg(result: BenchResult) -> str:
    """The whole document: a matrix for each quantity, below one another, and the conditions."""
    matrices = [_matrix(result.cells, quantity) for quantity in QUANTITIES]
    notes = _notes([LEGEND, *condition_lines(result)])
    return document("Memory bandwidth and latency by node", stack([*matrices, notes], GAP))


def _notes(lines: Sequence[str]) -> Block:
    elements = [text(0, 12 + LINE * n, line, 12, FAINT) for n, line in enumerate(lines)]
    return Block(LETTER * max(map(len, lines)), LINE * len(lines), tuple(elements))


def _matrix(cells: Sequence[Cell], quantity: Quantity) -> Block:
    rows = sorted({cell.reader for cell in cells})
    columns = sorted({cell.memory for cell in cells})
    values = {(c.reader, c.memory): s for c in cells if (s := quantity.of(c)) is not None}
    medians = sorted(spread.median for spread in values.values())
    elements = [text(0, 14, quantity.title, 15)]
    for x, memory in enumerate(columns):
        middle = LEFT + CELL_WIDTH * x + CELL_WIDTH / 2
        elements.append(text(middle, TOP - 7, str(memory), 12, FAINT, anchor="middle"))
    for y, reader in enumerate(rows):
        line = TOP + CELL_HEIGHT * y
        elements.append(text(LEFT - 10, line + 21, f"node {reader}", 12, FAINT, anchor="end"))
        for x, memory in enumerate(columns):
            spread = values.get((reader, memory))
            shade = None if spread is None else _shade(spread.median, medians, quantity.better)
            elements += _cell(LEFT + CELL_WIDTH * x, line, figure(spread), shade)
    width = LEFT + CELL_WIDTH * len(columns)
    return Block(width, TOP + CELL_HEIGHT * len(rows), tuple(elements))


def _shade(value: float, ascending: Sequence[float], better: int) -> int:
    low, high = ascending[0], ascending[-1]
    if high == low:
        return len(HEAT) - 1
    place = (value - low) / (high - low)
    return round((place if better > 0 else 1 - place) * (len(HEAT) - 1))


def _cell(x: float, y: float, words: str, shade: int | None) -> Iterator[str]:
    """A square with its figure; an empty one where there is none."""
    fill = PAPER if shade is None else HEAT[shade]
    ink = PAPER if shade is not None and shade >= 4 else INK
    edge = EDGE if shade is None else "none"
    yield rectangle(x, y, CELL_WIDTH - 2, CELL_HEIGHT - 2, fill, edge, 3)
    yield text(x + CELL_WIDTH / 2 - 1, y + 21, words, 13, ink, anchor="middle")
