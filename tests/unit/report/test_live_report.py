"""The lines that `run` says while the program runs."""

from __future__ import annotations

import pytest

from numamirror_cli.launch.events import Event
from numamirror_cli.report.live import LiveReport

MIB = 1 << 20


def coverage(mirrored: int, token: int, served: int) -> Event:
    figures = {
        "gemm_bytes": 40 * MIB,
        "mirrored_bytes": mirrored,
        "token_bytes": token,
        "token_mirrored_bytes": served,
    }
    return Event(1.0, 4711, "coverage", figures)


def test_a_partial_mirror_says_what_share_of_the_reads_it_covers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    LiveReport(False, False).show(coverage(20 * MIB, 16 * MIB, 10 * MIB))
    expected = "numamirror: coverage 50 % (20 of 40 MiB that GEMM reads), 62 % by reads\n"
    assert capsys.readouterr().err == expected


def test_coverage_is_said_again_only_when_it_is_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    live = LiveReport(False, False)
    live.show(coverage(40 * MIB, 40 * MIB, 40 * MIB))
    live.show(coverage(40 * MIB, 16 * MIB, 16 * MIB))  # fewer experts than in the warm-up
    assert capsys.readouterr().err.count("coverage") == 1
    live.show(coverage(20 * MIB, 16 * MIB, 10 * MIB))
    assert capsys.readouterr().err.count("coverage") == 1


def test_a_reason_that_was_said_before_the_start_is_not_said_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    live = LiveReport(False, False, reasons={"it has no names (strip -x)"})
    for why in ("it has no names (strip -x)", "another one"):
        live.show(Event(1.0, 4711, "note", {"level": "warn", "what": "x", "why": why}))
    assert capsys.readouterr().err == "numamirror: x: another one\n"
