"""The look that all our tables share."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rich.table import Table
from rich.text import Text

from numamirror_cli.report.folded import Folded


def plain_table(*columns: str, right: Collection[str] = ()) -> Table:
    """A table without lines: readable in a pipe, and numbers stand under their heading."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def facts_table(facts: Iterable[tuple[str, str]], word_width: int | None = None) -> Table:
    """A bold word, and a sentence with a hanging indent; the word is "" where it stands above.

    word_width: letters that the words' column has at least, so that several tables line up.
    """
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=word_width)
    table.add_column(overflow="fold")
    for label, sentence in facts:
        table.add_row(Text(label, style="bold"), Folded(sentence))
    return table
