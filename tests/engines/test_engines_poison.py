"""The primary's mirrored pages are made unreadable: who still reads them?"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rig import IK_LLAMA, Engine, Run, poison_library, poison_stand_in, run_mirrored, run_plain
from test_engines_mirror import TWO_REPLICAS

PAGE_BYTES = os.sysconf("SC_PAGESIZE")

# Look-ups of single rows and element-wise norms, not GEMM: they may read the primary.
MAY_READ_THE_PRIMARY = ("ggml_compute_forward_get_rows", "ggml_compute_forward_rms_norm")

PROMPT_AND_TEXT_TOKENS = 64

GEMM = ("mul_mat", "ggml_vec_dot_", "llamafile_sgemm", "iqk_")


def reads_by(report: dict[str, Any], functions: tuple[str, ...]) -> list[dict[str, Any]]:
    """The booked reads that have one of these functions, by part of its name, as a caller."""
    return [read for read in report["reads"] if called_by(read["chain"], functions)]


def pages_in(reads: list[dict[str, Any]]) -> int:
    return sum(read["pages"] for read in reads)


def called_by(chain: list[str], functions: tuple[str, ...]) -> bool:
    return any(name in frame for frame in chain for name in functions)


@pytest.fixture
def poisoned(engine: Engine, model: str) -> Run:
    return run_mirrored(engine, model, TWO_REPLICAS, poisoned=True)


def test_only_row_lookups_and_norms_still_read_the_primary(engine: Engine, poisoned: Run) -> None:
    allowed = reads_by(poisoned.poison, MAY_READ_THE_PRIMARY)
    others = [read for read in poisoned.poison["reads"] if read not in allowed]
    assert reads_by(poisoned.poison, GEMM) == []
    assert poisoned.poison["writes"] == []
    if engine is IK_LLAMA:  # its look-ups have no names: as many pages as tokens take
        assert pages_in(others) < 3 * PROMPT_AND_TEXT_TOKENS
    else:
        assert others == []


def test_nearly_all_mirrored_bytes_were_unreadable(poisoned: Run) -> None:
    """Only pages that an extent shares with its neighbours stay readable."""
    assert poisoned.poison["bytes"] > 0.95 * poisoned.mirror["mirrored_bytes"]
    assert poisoned.poison["gave_up"] == 0


def test_they_were_unreadable_before_the_text_was_generated(poisoned: Run) -> None:
    assert poisoned.poison["armed_at"] < poisoned.generating_since


@pytest.mark.parametrize("model", ["moe-Q8_0"])
def test_without_redirection_the_poison_finds_gemm(engine: Engine, model: str) -> None:
    """The negative control: replicas stand, but the shim hands out the primary."""
    control = run_mirrored(
        engine,
        model,
        TWO_REPLICAS,
        environment=(("NUMAMIRROR_TEST_NO_REDIRECT", "1"),),
        poisoned=True,
    )
    by_name = pages_in(reads_by(control.poison, GEMM))
    gemm_pages = pages_in(control.poison["reads"]) if engine is IK_LLAMA else by_name
    assert gemm_pages * PAGE_BYTES > 0.5 * control.poison["bytes"]
    assert control.line == run_plain(engine, model)


@pytest.mark.parametrize(("reads", "writes"), [(0, 0), (5, 0), (62, 0), (3, 4)])
def test_the_poison_books_each_page_that_is_touched(
    reads: int, writes: int, tmp_path: Path
) -> None:
    report = tmp_path / "poison.json"
    environment = {"LD_PRELOAD": str(poison_library()), "POISON_REPORT": str(report)}
    command = [str(poison_stand_in()), str(reads), str(writes)]
    subprocess.run(command, env=os.environ | environment, check=True, timeout=300)
    booked = json.loads(report.read_text())
    assert booked["bytes"] == 62 * PAGE_BYTES
    assert pages_of(booked["reads"], "stand_in_reads") == reads
    assert pages_of(booked["writes"], "stand_in_writes") == writes
    assert len(booked["reads"]) == (reads > 0)


def pages_of(bookings: list[dict[str, Any]], function: str) -> int:
    return sum(booking["pages"] for booking in bookings if booking["chain"][0] == function)
