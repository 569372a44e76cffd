"""Imports between the rooms of the package point one way (docs/architecture.md)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "numamirror_cli"
# Known to all, and knowing nobody.
COMMON = {"errors", "figures", "notice", "output", "quoting", "__init__"}
MAY_ASK = {
    "machine": set(),
    "engine": set(),
    "memory": {"engine", "machine"},
    "plan": {"memory", "machine"},
    "launch": {"plan", "engine", "memory", "machine"},
    "report": {"launch", "plan", "engine", "memory", "machine", "doctor"},
    "errors": set(),
    "figures": set(),
    "notice": set(),
    "output": set(),
    "quoting": set(),
}


def rooms_asked_by(file: Path) -> Iterator[str]:
    """The first name behind `numamirror_cli` of each import, wherever in the file it stands."""
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if "." in node.module else []
            if node.module == "numamirror_cli":
                names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            package, _, inside = name.partition(".")
            if package == "numamirror_cli" and inside:
                yield inside.split(".")[0]


@pytest.mark.parametrize("room", MAY_ASK)
def test_a_room_asks_only_those_below_it(room: str) -> None:
    files = list((PACKAGE / room).rglob("*.py")) or [PACKAGE / f"{room}.py"]
    allowed = MAY_ASK[room] | COMMON | {room, "__version__"}
    asked = {
        (file.relative_to(PACKAGE).as_posix(), name)
        for file in files
        for name in rooms_asked_by(file)
        if name not in allowed
    }
    assert asked == set()


def test_every_room_stands_in_the_map() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert rooms - set(MAY_ASK) == {"commands", "doctor"}
    text = (PACKAGE.parent / "docs" / "architecture.md").read_text()
    assert [room for room in rooms if f"`{room}/`" not in text] == []
