"""The look that all our tables share."""

from __future__ import annotations

from collections.abc import Collection

from rich.table import Table


def plain_table(*columns: str, right: Collection[str] = ()) -> Table:
    """A table without lines: readable in a pipe, and numbers stand under their heading."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table
