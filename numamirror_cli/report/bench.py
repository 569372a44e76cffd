"""What `bench` measured, as tables: nodes that read in rows, nodes of the memory in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from numamirror_cli.figures import counted
from numamirror_cli.plan.bench_result import BenchResult, Cell, Spread
from numamirror_cli.report.folded import Folded
from numamirror_cli.report.tables import plain_table
from numamirror_cli.report.units import size

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LEGEND = "Memory of the node in the column, read by the node in the row."
# Columns that fit in 80 characters.
COLUMNS_PER_TABLE = 9
# From the least to the most; blocks where the terminal has them.
SHADES = "░▒▓█"
ASCII_SHADES = ".:+#"
# With a higher load average than this before the start, the figures may be too low.
_BUSY = 0.5


@dataclass(frozen=True)
class Quantity:
    """One of the three figures of a cell. better: +1 when more is better, -1 when less is."""

    title: str
    of: Callable[[Cell], Spread | None]
    better: int


QUANTITIES = (
    Quantity("All cores, GB/s", lambda cell: cell.all, 1),
    Quantity("One thread, GB/s", lambda cell: cell.one, 1),
    Quantity("Latency, ns", lambda cell: cell.latency, -1),
)


def render_bench(result: BenchResult, *, ascii_only: bool = False) -> RenderableType:
    """A table for each quantity, shaded by value, then what it means and how it was taken."""
    parts: list[RenderableType] = []
    if len(result.cells) == 1:
        parts.append(_one_cell(result.cells[0]))
    else:
        parts.append(Text(f"{LEGEND}\n"))
        for quantity in QUANTITIES:
            parts += [*_tables(result.cells, quantity, ascii_only), Text()]
        parts += [Folded(line) for line in summary_lines(result.cells)]
    parts += [Text(), *(Folded(line) for line in condition_lines(result))]
    return Group(*parts)


def _one_cell(cell: Cell) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    threads = counted(cell.threads, "thread")
    for label, spread, unit in (
        (f"Node {cell.reader}, {threads}", cell.all, "GB/s"),
        ("One thread", cell.one, "GB/s"),
        ("Latency", cell.latency, "ns"),
    ):
        spreads = Folded(f"{unit}{_range(spread)}")
        table.add_row(Text(label, style="bold"), figure(spread), spreads)
    return table


def _range(spread: Spread | None) -> str:
    if spread is None:
        return ""
    return f" ({number(spread.low)} to {number(spread.high)} in 80 % of passes)"


def _tables(cells: Sequence[Cell], quantity: Quantity, ascii_only: bool) -> Iterator[Table]:
    columns = sorted({cell.memory for cell in cells})
    rows = sorted({cell.reader for cell in cells})
    by_pair = {(cell.reader, cell.memory): quantity.of(cell) for cell in cells}
    shades = ASCII_SHADES if ascii_only else SHADES
    shade = _shading([s.median for s in by_pair.values() if s], quantity.better, shades)
    for first in range(0, len(columns), COLUMNS_PER_TABLE):
        shown = columns[first : first + COLUMNS_PER_TABLE]
        title = quantity.title.ljust(len("One thread, GB/s"))
        table = plain_table(title, *map(str, shown), right=[str(column) for column in shown])
        for row in rows:
            spreads = [by_pair.get((row, column)) for column in shown]
            table.add_row(f"node {row:>3}", *(_shaded(spread, shade) for spread in spreads))
        yield table


def _shading(values: Sequence[float], better: int, shades: str) -> Callable[[float], str]:
    """Function from a value to its shade: the best is the darkest."""
    low, high = min(values, default=0.0), max(values, default=0.0)

    def shade(value: float) -> str:
        place = (value - low) / (high - low) if high > low else 1.0
        place = place if better > 0 else 1 - place if high > low else 1.0
        return shades[min(len(shades) - 1, int(place * len(shades)))]

    return shade


def _shaded(spread: Spread | None, shade: Callable[[float], str]) -> Text:
    return Text("?") if spread is None else Text(f"{shade(spread.median)} {figure(spread)}")


def figure(spread: Spread | None) -> str:
    """The median with three digits at most, "?" where there is none."""
    return "?" if spread is None else number(spread.median)


def number(value: float) -> str:
    """Three significant digits: "137", "47.7", "8.05"."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.3g}"


def summary_lines(cells: Sequence[Cell]) -> Iterator[str]:
    """Own memory against other nodes', in one sentence that `plan --bandwidth` understands."""
    own = [cell.all.median for cell in cells if cell.all and cell.reader == cell.memory]
    other = [cell.all.median for cell in cells if cell.all and cell.reader != cell.memory]
    if own and other:
        ratios = [o / r for o in (min(own), max(own)) for r in (min(other), max(other))]
        yield (
            f"A node reads its own memory at {_between(own, number)} GB/s, others' at "
            f"{_between(other, number)} GB/s: {_times(_between(ratios, _ratio))}."
        )
    for cell in cells:
        if cell.problem:
            yield f"Node {cell.reader} reading node {cell.memory}: {cell.problem}."


def _times(ratio: str) -> str:
    return "equally fast" if ratio == "1" else f"{ratio} times as fast"


def _ratio(value: float) -> str:
    """Two significant digits, since the two figures of a ratio differ from run to run: "2.9"."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.2g}"


def _between(values: Sequence[float], text: Callable[[float], str]) -> str:
    low, high = text(min(values)), text(max(values))
    return low if low == high else f"{low} to {high}"


def condition_lines(result: BenchResult) -> Iterator[str]:
    """When, on what and under which conditions."""
    cpu = f"{result.identity.cpu}, " if result.identity.cpu else ""
    balancing = "absent" if result.numa_balancing is None else str(result.numa_balancing)
    yield f"{cpu}kernel {result.kernel}, numa_balancing {balancing}, {result.day}"
    there = [cell for cell in result.cells if not cell.problem]
    if there:
        yield f"Read: {_amounts(there)}; {_where(there)}"
    if result.load > _BUSY:
        yield f"The load average was {result.load:.1f} before the start: figures may be too low."


def _amounts(cells: Sequence[Cell]) -> str:
    """How much memory, and how much of it in huge pages."""
    least, most = min(c.bytes for c in cells), max(c.bytes for c in cells)
    amount = size(least) if least == most else f"{size(least)} to {size(most)}"
    small = [cell for cell in cells if cell.huge_bytes < cell.bytes]
    pages = "in huge pages" if not small else "not all in huge pages"
    return f"{amount} a pair, {pages}"


def _where(cells: Sequence[Cell]) -> str:
    if len(cells) == 1 and not cells[0].sampled:
        return "one node"
    asked = sum(cell.sampled for cell in cells)
    if not all(cell.sampled for cell in cells):
        return "where the memory lay could not be asked for every pair"
    there = sum(cell.sampled_there for cell in cells)
    return f"{there} of {asked} sampled pages on the node they were meant for"


class BenchProgress:
    """A bar on stderr with the pair that is being measured; none where stderr is no terminal."""

    def __init__(self, pairs: int, terminal: bool) -> None:
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        if terminal:
            self._progress = _new_progress()
            self._task = self._progress.add_task("", total=4 * pairs)
            self._progress.start()

    def show(self, cell: Cell, done: int) -> None:
        """Something was found out about the pair after `done` whole pairs."""
        if self._progress is None or self._task is None:
            return
        known: Mapping[str, object] = {"m": cell.bytes, "a": cell.all, "o": cell.one}
        steps = 4 * done + sum(map(bool, known.values()))
        label = f"node {cell.reader} reads node {cell.memory}: {figure(cell.all)} GB/s"
        self._progress.update(self._task, completed=steps, description=label)

    def stop(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()


def _new_progress() -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from numamirror_cli.report.console import message_console

    return Progress(
        TextColumn("numamirror: {task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=message_console(),
        transient=True,
    )
