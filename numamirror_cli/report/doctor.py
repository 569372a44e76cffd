"""Checks as text and as JSON (version 1, docs/json.md)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from numamirror_cli.doctor.check import BAD, OK, WARN, Check
from numamirror_cli.report.folded import Folded, folded_remedy

SCHEMA = 1
_STYLES = {OK: "green", WARN: "yellow", BAD: "red"}


def render_doctor(checks: Sequence[Check]) -> RenderableType:
    """A line for each check, its remedy below it; a line of sums at the end."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        level = Text(check.level, style=_STYLES[check.level])
        table.add_row(level, check.name, Folded(check.text))
        if check.remedy:
            table.add_row("", "", Padding(folded_remedy(check.remedy), (0, 0, 0, 2)))
    return Group(table, Text(), Text(_sums(checks)))


def _sums(checks: Sequence[Check]) -> str:
    counts = {level: sum(check.level == level for check in checks) for level in (BAD, WARN, OK)}
    return ", ".join(f"{count} {level}" for level, count in counts.items() if count)


def doctor_json(checks: Sequence[Check], root: Path, command: Sequence[str]) -> dict[str, Any]:
    """The document of `doctor --json`."""
    return {
        "schema": SCHEMA,
        "root": str(root),
        "command": list(command),
        "checks": [
            {"name": c.name, "level": c.level, "text": c.text, "remedy": c.remedy} for c in checks
        ],
        "bad": sum(check.level == BAD for check in checks),
    }
