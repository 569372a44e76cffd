"""The shim's table as the command line reads it, against the shim that is compiled from it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from numamirror_cli.engine.shim import find_shim
from numamirror_cli.engine.symbols import IQK, MAINLINE, known_symbols, parse_symbols

REPOSITORY = Path(__file__).resolve().parents[3]

TABLE = """
/* A comment with X(not_a_row, REQUIRED, 0.1) in it. */
#define NM_SEAMS(X)            \\
    X(first, REQUIRED, 0.9.7, 1)  \\
    X(second, MAINLINE, 0.26.0, 2)

#define NM_VEC_DOTS(X)  X(f32, OPTIONAL, 0.9.7) X(q4_0_q8_0, OPTIONAL, 0.9.7)

#define NM_OTHER_SEAMS(X)      \\
    X(third, IQK, ik, 0, 5, 0)
#define NM_API(X) X(fourth, REQUIRED, 0.9.7)
"""


def test_rows_of_every_list_are_read_whatever_further_columns_they_have() -> None:
    rows = {s.name: (s.group, s.need, s.since) for s in parse_symbols(TABLE)}
    assert rows == {
        "first": ("SEAMS", "REQUIRED", "0.9.7"),
        "second": ("SEAMS", "MAINLINE", "0.26.0"),
        "ggml_vec_dot_f32": ("VEC_DOTS", "OPTIONAL", "0.9.7"),
        "ggml_vec_dot_q4_0_q8_0": ("VEC_DOTS", "OPTIONAL", "0.9.7"),
        "third": ("OTHER_SEAMS", "IQK", "ik"),
        "fourth": ("API", "REQUIRED", "0.9.7"),
    }


def test_a_family_needs_its_own_rows_and_the_common_ones() -> None:
    rows = {s.name: s for s in parse_symbols(TABLE)}
    assert {n for n, s in rows.items() if s.is_needed_by(MAINLINE)} == {"first", "second", "fourth"}
    assert {n for n, s in rows.items() if s.is_needed_by(IQK)} == {"first", "third", "fourth"}
    assert {n for n, s in rows.items() if not s.is_seam} == {"fourth"}
    assert {n for n, s in rows.items() if not s.belongs_to(MAINLINE)} == {"third"}
    assert all(s.belongs_to(IQK) for s in rows.values())


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
