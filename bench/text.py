"""A figure as words, alike on the screen and on the page."""

from __future__ import annotations

from bench.figures import RATIO, Figure, Spread

HEADINGS = ("what", "ours", "against", "other", "result", "goal")


def cells(figure: Figure) -> tuple[str, ...]:
    """Ours and other: median (least-greatest). Result: of pairs of runs, with the interval in
    which its median lies 19 times in 20."""
    met = {True: "met", False: "NOT met", None: ""}[figure.met]
    return (
        f"{figure.what} ({figure.unit})",
        spread_of(figure.ours),
        figure.against,
        spread_of(figure.other),
        result(figure),
        f"{figure.goal} {met}".strip(),
    )


def spread_of(values: Spread | None) -> str:
    if values is None:
        return ""
    if values.count == 1:
        return number(values.median)
    return f"{number(values.median)} ({number(values.min)}-{number(values.max)})"


def result(figure: Figure) -> str:
    if figure.result is None:
        return ""
    values, sign = figure.result, "x " if figure.kind == RATIO else ""
    plus = "" if figure.kind == RATIO or values.median < 0 else "+"
    said = f"{sign}{plus}{number(values.median, 4)}"
    if values.count == 1:
        return said
    return f"{said} [{number(values.low, 4)}, {number(values.high, 4)}]"


def number(value: float, digits: int = 3) -> str:
    """That many digits, and never an exponent."""
    text = f"{value:.{digits}g}"
    return f"{value:,.0f}" if "e" in text or abs(value) >= 1000 else text
