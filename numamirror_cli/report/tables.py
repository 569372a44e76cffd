"""The look that all our tables share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.style import StyleType
from rich.table import Column, Table
from rich.text import Text

from numamirror_cli.quoting import printable
from numamirror_cli.report.folded import Folded

# Between two columns.
_GAP = 2
# What is left of a column of words when it is folded, at least.
_NARROWEST = 12


class PlainTable(Table):
    """Headings are folded first, then words; numbers never: rather than that, each row becomes
    lines of its own, a cell after its heading. A cell that is a string is made printable."""

    def add_row(
        self,
        *cells: RenderableType | None,
        style: StyleType | None = None,
        end_section: bool = False,
    ) -> None:
        shown = (printable(cell) if isinstance(cell, str) else cell for cell in cells)
        super().add_row(*shown, style=style, end_section=end_section)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width - _GAP * (len(self.columns) - 1)
        for longest_word in (room, _NARROWEST):
            needs = [_needs(column, longest_word, console, options) for column in self.columns]
            if sum(need.minimum for need in needs) <= room:
                for column, width in zip(self.columns, _shared_out(room, needs), strict=True):
                    column.width = width
                yield from super().__rich_console__(console, options)
                return
        yield self._row_by_row()

    def _row_by_row(self) -> Table:
        grid = Table.grid(padding=(0, _GAP, 0, 0))
        grid.add_column(style="bold", overflow="fold")
        grid.add_column(overflow="fold")
        rows = zip(*(column.cells for column in self.columns), strict=True)
        for number, cells in enumerate(rows):
            if number:
                grid.add_row()
            for column, cell in zip(self.columns, cells, strict=True):
                grid.add_row(column.header, cell)
        return grid


def _needs(
    column: Column, longest_word: int, console: Console, options: ConsoleOptions
) -> Measurement:
    """The least width of a column, and that at which nothing in it is folded. A word that is
    longer than `longest_word` may be folded, too."""
    heading, *cells = (
        Measurement.get(console, options, part) for part in (column.header, *column.cells)
    )
    is_number = column.justify == "right"
    least = (cell.maximum if is_number else min(cell.minimum, longest_word) for cell in cells)
    whole = max(part.maximum for part in (heading, *cells))
    return Measurement(max([heading.minimum, *least]), whole)


def _shared_out(room: int, needs: Sequence[Measurement]) -> list[int]:
    """Widths: what each needs at least, and of the rest the narrowest gets first."""
    widths = [need.minimum for need in needs]
    for _ in range(room - sum(widths)):
        wanting = [n for n, need in enumerate(needs) if widths[n] < need.maximum]
        if not wanting:
            break
        widths[min(wanting, key=widths.__getitem__)] += 1
    return widths


def plain_table(*columns: str, right: Collection[str] = ()) -> Table:
    """A table without lines: readable in a pipe, and numbers stand under their heading."""
    table = PlainTable(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
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
