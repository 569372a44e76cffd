"""The bench's matrices as a picture: readers in rows, memories in columns, the best is darkest.

Plain SVG 1.1 without scripts, fonts or links, in the colours of topology_svg.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from numamirror_cli.plan.bench_result import BenchResult, Cell
from numamirror_cli.report.bench import LEGEND, QUANTITIES, Quantity, condition_lines, figure
from numamirror_cli.report.topology_svg import EDGE, FAINT, HEAT, INK, PAPER

# Lengths in pixels.
CELL_WIDTH, CELL_HEIGHT = 58, 34
MARGIN, LEFT, TOP, GAP = 28, 66, 50, 26
FONTS = "system-ui, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"


def bench_svg(result: BenchResult) -> str:
    """The whole document: a matrix for each quantity, below one another, and the conditions."""
    columns = sorted({cell.memory for cell in result.cells})
    rows = sorted({cell.reader for cell in result.cells})
    notes = [LEGEND, *condition_lines(result)]
    matrix_height = TOP + CELL_HEIGHT * len(rows) + GAP
    # Letters are 7 pixels wide at most on average.
    width = 2 * MARGIN + max(LEFT + CELL_WIDTH * len(columns), *(7 * len(note) for note in notes))
    height = 2 * MARGIN + matrix_height * len(QUANTITIES) + 18 * len(notes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="{FONTS}">',
        "<title>Memory bandwidth and latency by node</title>",
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
    ]
    for number, quantity in enumerate(QUANTITIES):
        top = MARGIN + matrix_height * number
        parts += _matrix(result.cells, quantity, rows, columns, top)
    bottom = MARGIN + matrix_height * len(QUANTITIES)
    parts += [_text(MARGIN, bottom + 18 * n, note, FAINT, 12) for n, note in enumerate(notes)]
    return "\n".join([*parts, "</svg>\n"])


def _matrix(
    cells: Sequence[Cell], quantity: Quantity, rows: Sequence[int], columns: Sequence[int], top: int
) -> Iterator[str]:
    values = {(c.reader, c.memory): s for c in cells if (s := quantity.of(c)) is not None}
    medians = sorted(spread.median for spread in values.values())
    yield _text(MARGIN, top + 14, quantity.title, INK, 15)
    for x, memory in enumerate(columns):
        middle = MARGIN + LEFT + CELL_WIDTH * x + CELL_WIDTH / 2
        yield _text(middle, top + TOP - 7, str(memory), FAINT, 12, "middle")
    for y, reader in enumerate(rows):
        line = top + TOP + CELL_HEIGHT * y
        yield _text(MARGIN + LEFT - 10, line + 21, f"node {reader}", FAINT, 12, "end")
        for x, memory in enumerate(columns):
            spread = values.get((reader, memory))
            shade = None if spread is None else _shade(spread.median, medians, quantity.better)
            yield from _cell(MARGIN + LEFT + CELL_WIDTH * x, line, figure(spread), shade)


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
    edge = f' stroke="{EDGE}"' if shade is None else ""
    size = f'width="{CELL_WIDTH - 2}" height="{CELL_HEIGHT - 2}"'
    yield f'<rect x="{x}" y="{y}" {size} rx="3" fill="{fill}"{edge}/>'
    yield _text(x + CELL_WIDTH / 2 - 1, y + 21, words, ink, 13, "middle")


def _text(x: float, y: float, words: str, fill: str, points: int, anchor: str = "start") -> str:
    place = f'x="{x:g}" y="{y:g}" font-size="{points}" fill="{fill}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(words)}</text>"
