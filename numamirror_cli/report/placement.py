"""The table of a process's memory per node, in numastat's rows, units and widths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions
from rich.text import Text

from numamirror_cli.memory.placement import ROWS, NodeBytes, Placement
from numamirror_cli.quoting import printable
from numamirror_cli.report.units import mib

# numastat -p (numactl 2.0): a first column of 16 and a gap, then right-justified cells of 16.
_LABEL_WIDTH = 17
_CELL_WIDTH = 16


@dataclass(frozen=True)
class PlacementTable:
    """A rich renderable; columns that do not fit the width go to further tables below."""

    placement: Placement
    title: str

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield Text(f"\n{self.title}")
        for number, part in enumerate(_folded(self.placement, options.max_width)):
            if number:
                yield Text("")
            for line in _lines(part):
                yield Text(line, no_wrap=True, overflow="ignore")


@dataclass(frozen=True)
class _Column:
    name: str
    amounts: NodeBytes


def render_placement(placement: Placement, pid: int, command: str) -> PlacementTable:
    """Memory per node in MB of 2^20 bytes, as `numastat -p PID` shows it; fits any width."""
    title = f"Per-node process memory usage (in MBs) for PID {pid} ({printable(command)})"
    return PlacementTable(placement, title)


def placement_json(placement: Placement) -> dict[str, dict[str, int]]:
    """Bytes per node id and row."""
    return {
        str(node): {row: getattr(amounts, row) for row in ROWS}
        for node, amounts in placement.by_node.items()
    }


def _folded(placement: Placement, width: int) -> Iterator[list[_Column]]:
    columns = [_Column(f"Node {node}", amounts) for node, amounts in placement.by_node.items()]
    columns.append(_Column("Total", placement.total))
    per_part = max(1, (width - _LABEL_WIDTH) // _CELL_WIDTH)
    for start in range(0, len(columns), per_part):
        yield columns[start : start + per_part]


def _lines(columns: list[_Column]) -> Iterator[str]:
    rule = " ".join("-" * (_CELL_WIDTH - 1) for _ in columns)
    yield " " * _LABEL_WIDTH + "".join(column.name.rjust(_CELL_WIDTH) for column in columns)
    yield " " * (_LABEL_WIDTH + 1) + rule
    for row in ROWS:
        yield _row(row, columns)
    yield "-" * (_LABEL_WIDTH - 1) + "  " + rule
    yield _row("total", columns)


def _row(name: str, columns: list[_Column]) -> str:
    amounts = (mib(getattr(column.amounts, name)) for column in columns)
    cells = (f"{amount:.2f}".rjust(_CELL_WIDTH) for amount in amounts)
    return name.capitalize().ljust(_LABEL_WIDTH) + "".join(cells)
