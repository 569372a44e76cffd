"""The shim's table as the command line reads it, against the shim that is compiled from it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from numamirror_cli.engine.shim import find_shim
from numamirror_cli.engine.symbols import IQK, MAINLINE, known_symbols, parse_symbols

REPOSITORY = Path(__file__).resolve().parents[3]

TABLE = """
/* A comment with X(not_a_row, REQUIRED) in it. */
#define NM_SEAMS(X)            \\
    X(first, REQUIRED)         \\
    X(second, MAINLINE)

#define NM_VEC_DOTS(X)  X(f32, OPTIONAL) X(q4_0_q8_0, OPTIONAL)

#define NM_OTHER_SEAMS(X)      \\
    X(third, IQK, 0, 5, 0)
#define NM_API(X) X(fourth, REQUIRED)
"""


def test_rows_of_every_list_are_read_whatever_further_columns_they_have() -> None:
    rows = {s.name: (s.group, s.need) for s in parse_symbols(TABLE)}
    assert rows == {
        "first": ("SEAMS", "REQUIRED"),
        "second": ("SEAMS", "MAINLINE"),
        "ggml_vec_dot_f32": ("VEC_DOTS", "OPTIONAL"),
        "ggml_vec_dot_q4_0_q8_0": ("VEC_DOTS", "OPTIONAL"),
        "third": ("OTHER_SEAMS", "IQK"),
        "fourth": ("API", "REQUIRED"),
    }


def test_a_family_needs_its_own_rows_and_the_common_ones() -> None:
    rows = {s.name: s for s in parse_symbols(TABLE)}
    assert {n for n, s in rows.items() if s.is_needed_by(MAINLINE)} == {"first", "second", "fourth"}
    assert {n for n, s in rows.items() if s.is_needed_by(IQK)} == {"first", "third", "fourth"}
    assert {n for n, s in rows.items() if not s.is_seam} == {"fourth"}


def test_the_shim_exports_exactly_the_seams_of_the_table() -> None:
    shim = find_shim({}).path
    table = REPOSITORY / "native/src/symbols.def"
    if shim is None or shim.stat().st_mtime < table.stat().st_mtime:
        pytest.skip("no shim is built that is newer than the table")
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", shim], capture_output=True, text=True, check=True
    )
    exported = {line.split()[-1] for line in listed.stdout.splitlines()}
    engines_own = {name for name in exported if name.startswith(("ggml_", "iqk_"))}
    assert engines_own == {s.name for s in known_symbols() if s.is_seam}
