"""The functions of an engine that the shim interposes or calls: native/src/symbols.def, read.

The shim is compiled from that table and the package carries a copy of it beside the shim, so that
what is said before the start comes from the rows that decide after it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numamirror_cli
from numamirror_cli.errors import NumaMirrorError

TABLE_NAME = "symbols.def"

# What a row may say of an engine's need, beside REQUIRED and OPTIONAL: the family it belongs to.
MAINLINE, IQK = "MAINLINE", "IQK"

# In the column of versions: of functions that llama.cpp never had.
ONLY_IK = "ik"

_MACRO = re.compile(r"^#define NM_(\w+)\(X\)((?:.*\\\n)*.*)", re.MULTILINE)
_ROW = re.compile(r"\bX\(\s*(\w+)\s*,\s*(\w+)\s*,\s*([\w.]+)")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# The table names these by what differs; their functions are called ggml_vec_dot_NAME.
_VEC_DOTS, _VEC_DOT_PREFIX = "VEC_DOTS", "ggml_vec_dot_"
_ONLY_CALLED = "API"


@dataclass(frozen=True)
class Symbol:
    """A row. group: the macro that lists it, without NM_. need: REQUIRED, OPTIONAL or a family.
    since: the oldest ggml version that was seen to have it, or "ik"."""

    name: str
    group: str
    need: str
    since: str

    @property
    def is_seam(self) -> bool:
        """The shim interposes it; it only calls the others."""
        return self.group != _ONLY_CALLED

    def belongs_to(self, family: str) -> bool:
        """Some version of that family may have it."""
        return family == IQK or self.since != ONLY_IK

    def is_needed_by(self, family: str) -> bool:
        """The shim leaves an engine of that family alone that lacks it."""
        return self.need in ("REQUIRED", family)


@functools.cache
def known_symbols() -> tuple[Symbol, ...]:
    """The rows of the table, in its order. Raises NumaMirrorError when there is no table."""
    for path in _places(Path(numamirror_cli.__file__).parent.resolve()):
        if path.is_file():
            return tuple(parse_symbols(path.read_text()))
    raise NumaMirrorError(
        f"{TABLE_NAME} was not found: the package was installed without its native part",
        hint="reinstall numamirror",
    )


def _places(package: Path) -> Iterator[Path]:
    """Installed, and in a source tree."""
    yield package / "lib" / TABLE_NAME
    yield package.parent / "native/src" / TABLE_NAME


def parse_symbols(text: str) -> Iterator[Symbol]:
    """The rows of every NM_*(X) list; further columns are the shim's own business."""
    for group, rows in _MACRO.findall(_COMMENT.sub("", text)):
        prefix = _VEC_DOT_PREFIX if group == _VEC_DOTS else ""
        for name, need, since in _ROW.findall(rows):
            yield Symbol(prefix + name, group, need, since)
