"""Long comma-separated lists (CPUs, addresses) that break at commas and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text


@dataclass(frozen=True)
class CommaList:
    """A table cell holding a list such as "0,4,8,12"; it may become as narrow as `narrowest`."""

    text: str
    narrowest: int = 12

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        longest = max(map(len, self.text.split(",")), default=0) + 1
        widest = max(map(len, self.text.splitlines()), default=0)
        return Measurement(min(widest, max(longest, self.narrowest)), widest)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.text.splitlines():
            for part in break_at_commas(line, options.max_width):
                yield Text(part)


def break_at_commas(text: str, width: int) -> list[str]:
    """Lines of at most `width` characters, each but the last ending in a comma; an element that is
    longer stays whole."""
    lines = [""]
    for element in text.replace(",", ",\0").split("\0"):
        if lines[-1] and len(lines[-1] + element) > width:
            lines.append("")
        lines[-1] += element
    return lines
