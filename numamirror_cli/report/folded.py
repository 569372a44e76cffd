"""Sentences for narrow screens: folded between words, and never between a number and its unit."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.text import Text

from numamirror_cli.quoting import printable
from numamirror_cli.report.text import folded_command, kept_together, set_free


class Folded:
    """A renderable; as rich's own Text, but for the numbers, and that a string is made printable:
    it is one sentence, whatever somebody's file in it is called."""

    def __init__(self, text: str | Text) -> None:
        self._text = text.copy() if isinstance(text, Text) else Text(printable(text))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        together = self._text.copy()
        together.plain = kept_together(together.plain)  # as long as before: styles stay
        for line in together.wrap(console, options.max_width, overflow="fold"):
            line.plain = set_free(line.plain)
            yield line

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self._text)


class FoldedCommand(Folded):
    """A command line that can be copied off the screen, if its longest word has room there."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        lines = folded_command(self._text.plain, options.max_width)
        if any(len(line) > options.max_width for line in lines):
            yield from super().__rich_console__(console, options)
        else:
            yield from map(Text, lines)


# How the remedies begin that are command lines and nothing else, and may be long.
_COMMANDS = ("numamirror run -- ", "echo ", "sudo ")


def folded_remedy(remedy: str) -> Folded:
    """A sentence, or a command line to be copied."""
    return FoldedCommand(remedy) if remedy.startswith(_COMMANDS) else Folded(remedy)
