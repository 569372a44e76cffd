"""What our pictures are made of: blocks of SVG that stack and flow, one set of colours.

Plain SVG 1.1 without scripts, fonts or links, so that a picture can go into any page. Lengths are
in pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from numamirror_cli.quoting import printable

INK, FAINT, PAPER = "#1f2933", "#6b7785", "#ffffff"
FIELD, EDGE = "#eef2f6", "#c5ced8"
# Near to far, in one hue that grows darker: readable in grey and for the colour-blind.
HEAT = ("#e8f4f3", "#bfe0dd", "#8cc6c2", "#56a8a3", "#2b8580", "#0f5e5a")
# Letters are this wide at most on average, in these fonts at 13 pixels.
LETTER = 7
MARGIN, PAD, LINE, TITLE = 28, 14, 18, 26
_FONTS = "system-ui, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"


@dataclass(frozen=True)
class Block:
    """A piece of the picture, drawn with its upper left corner at 0,0."""

    width: float
    height: float
    elements: tuple[str, ...]


def document(title: str, page: Block) -> str:
    """The whole file: that page on paper, with a margin around it."""
    width, height = page.width + 2 * MARGIN, page.height + 2 * MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{length(width)}" '
            f'height="{length(height)}" viewBox="0 0 {length(width)} {length(height)}" '
            f'font-family="{_FONTS}">',
            f"<title>{escape(printable(title))}</title>",
            rectangle(0, 0, width, height, PAPER),
            *moved(page, MARGIN, MARGIN),
            "</svg>\n",
        ]
    )


def heading(title: str, sentence: str) -> Block:
    """A title with a sentence below it, on as many lines as it needs."""
    lines = wrapped(sentence, 110)
    elements = [text(0, 20, title, 20, weight="600")]
    elements += [text(0, 44 + LINE * n, line, 13, FAINT) for n, line in enumerate(lines)]
    width = max(400, *(LETTER * len(line) for line in lines))
    return Block(width, 48 + LINE * (len(lines) - 1), tuple(elements))


def container(title: str, content: Block) -> Block:
    """A shaded field with a title above its content."""
    width, height = content.width + 2 * PAD, content.height + TITLE + PAD + 6
    return Block(
        width,
        height,
        (
            rectangle(0, 0, width, height, FIELD, EDGE, 10),
            text(PAD, 22, title, 13, FAINT, "600"),
            *moved(content, PAD, TITLE + 6),
        ),
    )


def stack(blocks: Sequence[Block], gap: float) -> Block:
    """Below one another."""
    elements: list[str] = []
    y = 0.0
    for block in blocks:
        elements += moved(block, 0, y)
        y += block.height + gap
    return Block(max(b.width for b in blocks), y - gap, tuple(elements))


def flow(blocks: Sequence[Block], width: float, gap: float) -> Block:
    """Side by side, as many as fit, then below one another; a row's blocks hang from its top."""
    elements: list[str] = []
    x = y = row_height = widest = 0.0
    for block in blocks:
        if x and x + block.width > width:
            x, y, row_height = 0.0, y + row_height + gap, 0.0
        elements += moved(block, x, y)
        widest = max(widest, x + block.width)
        x += block.width + gap
        row_height = max(row_height, block.height)
    return Block(widest, y + row_height, tuple(elements))


def moved(block: Block, x: float, y: float) -> list[str]:
    return [f'<g transform="translate({length(x)} {length(y)})">', *block.elements, "</g>"]


def rectangle(
    x: float,
    y: float,
    width: float,
    height: float,
    fill: str,
    stroke: str = "none",
    radius: float = 0,
    thick: bool = False,
) -> str:
    edge = f' stroke="{stroke}" stroke-width="{2 if thick else 1}"' if stroke != "none" else ""
    return (
        f'<rect x="{length(x)}" y="{length(y)}" width="{length(width)}" height="{length(height)}" '
        f'rx="{length(radius)}" fill="{fill}"{edge}/>'
    )


def text(
    x: float,
    y: float,
    words: str,
    points: float,
    fill: str = INK,
    weight: str = "",
    anchor: str = "",
) -> str:
    extra = (f' font-weight="{weight}"' if weight else "") + (
        f' text-anchor="{anchor}"' if anchor else ""
    )
    return (
        f'<text x="{length(x)}" y="{length(y)}" font-size="{length(points)}" fill="{fill}"{extra}>'
        f"{escape(printable(words))}</text>"
    )


def length(pixels: float) -> str:
    """A length without noise behind the point."""
    return f"{pixels:.1f}".removesuffix(".0")


def wrapped(words: str, width: int) -> list[str]:
    """The words on lines of at most that many letters, a longer word on a line of its own."""
    lines = [""]
    for word in words.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
