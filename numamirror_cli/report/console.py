"""The one place where rich consoles are made: reports go to stdout, messages to stderr.

NO_COLOR and FORCE_COLOR count when they are non-empty (no-color.org), and NO_COLOR wins. COLUMNS
sets the width, which is the terminal's otherwise, and 80 where there is none.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

from rich.console import Console, RenderableType


def report_console() -> Console:
    """A console on stdout for tables and text that the user asked for."""
    return _console(sys.stdout)


def print_report(report: RenderableType) -> None:
    """Print to stdout; without a terminal, lines are not padded with spaces at their ends."""
    console = report_console()
    if console.is_terminal:
        console.print(report)
        return
    with console.capture() as capture:
        console.print(report)
    for line in capture.get().splitlines():
        console.file.write(line.rstrip() + "\n")


def message_console() -> Console:
    """A console on stderr for messages and progress; stdout may belong to a child."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    no_color = bool(os.environ.get("NO_COLOR"))
    force_color = bool(os.environ.get("FORCE_COLOR")) and not no_color
    # rich itself takes an empty FORCE_COLOR on a terminal for "no terminal".
    is_terminal = force_color or stream.isatty()
    return Console(
        file=stream,
        width=_columns(),
        no_color=no_color,
        force_terminal=is_terminal,
        highlight=False,
        # "[0000:82:01.0]" and file names are text, never markup or emoji.
        markup=False,
        emoji=False,
    )


def _columns() -> int | None:
    """COLUMNS as a width, the terminal's where that is no positive number; None when unset, so
    that rich follows a terminal that is resized."""
    return shutil.get_terminal_size().columns if "COLUMNS" in os.environ else None
