"""Figures in sentences: all and nothing are said of no less and no more, and one is not many."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import numamirror_cli
from numamirror_cli.engine.reach import reach_without_engine
from numamirror_cli.figures import counted, nodes_word, percent, with_verb
from numamirror_cli.launch.events import Event
from numamirror_cli.plan.predict import Range
from numamirror_cli.plan.strategy import Strategy, choose_strategy
from numamirror_cli.report.bench import summary_lines
from numamirror_cli.report.mirror import judge_mirror, mirror_json, render_mirror
from numamirror_cli.report.progress import share_column
from numamirror_cli.report.run import where_of_copy
from tests.unit.plan.test_bench import result, spread
from tests.unit.plan.test_strategy import FIGURES, TWO_NODES
from tests.unit.report.test_mirror_table import MIRRORED, printed, with_copy

PACKAGE = Path(numamirror_cli.__file__).parent


@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_a_part_is_never_called_all_or_nothing(share: float) -> None:
    assert percent(share) not in ("0 %", "100 %")


def test_all_is_a_hundred_per_cent_and_nothing_is_none() -> None:
    assert (percent(1.0), percent(0.0)) == ("100 %", "0 %")


def test_percentages_are_spelled_in_one_place() -> None:
    """Elsewhere a rounded figure would stand before the sign, as in f"{x * 100:.0f} %"."""
    rounded = [
        f"{file.relative_to(PACKAGE)}:{node.lineno}"
        for file in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.JoinedStr) and is_rounded_percentage(node)
    ]
    # The error of a share, with its own digit, and what percent() itself says.
    assert {place.partition(":")[0] for place in rounded} == {"figures.py", "report/observe.py"}


def is_rounded_percentage(text: ast.JoinedStr) -> bool:
    return any(
        isinstance(figure, ast.FormattedValue)
        and figure.format_spec is not None
        and isinstance(behind, ast.Constant)
        and str(behind.value).startswith(" %")
        for figure, behind in zip(text.values, text.values[1:], strict=False)
    )


def test_json_gives_a_share_that_is_not_quite_all_as_it_is() -> None:
    nearly = replace(MIRRORED, mirrored_bytes=MIRRORED.gemm_bytes - 1, small_bytes=1)
    assert mirror_json(nearly)["coverage"] < 1.0
    reads = (replace(MIRRORED.threads[0], other_bytes=1), *MIRRORED.threads[1:])
    seen = replace(nearly, threads=reads)
    assert mirror_json(seen)["locality"] < 1.0
    (verdict,) = judge_mirror(seen)
    assert "coverage 99.9 %" in verdict.text and "locality 99.9 %" in verdict.text


def test_copies_that_nearly_all_reads_find_are_not_said_to_serve_all() -> None:
    room = {0: TWO_NODES.there[0], 1: 20 << 30}
    chosen = choose_strategy(replace(TWO_NODES, there=room, partial_coverage=0.9996))
    assert "a part that serves 99.9 % of the reads" in chosen.because


def test_a_bar_reaches_a_hundred_per_cent_at_the_end_and_not_before() -> None:
    assert [share_column(done, 100_000) for done in (0, 1, 47_000, 99_999, 100_000)] == [
        "   0 %",
        "<0.1 %",
        "  47 %",
        "99.9 %",
        " 100 %",
    ]


@pytest.mark.parametrize(
    ("other", "said"),
    [(137.0, "equally fast"), (134.0, "equally fast"), (48.0, "2.9 times as fast")],
)
def test_what_is_as_fast_is_not_called_one_time_as_fast(other: float, said: str) -> None:
    cells = (
        cell if cell.reader == cell.memory else replace(cell, all=spread(other))
        for cell in result().cells
    )
    (sentence,) = summary_lines(tuple(cells))
    assert sentence.endswith(f": {said}.")


def test_a_strategy_of_the_same_speed_is_not_called_one_time_as_fast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("numamirror_cli.plan.strategy._gain", lambda *_: Range(0.98, 1.04))
    chosen: Strategy = choose_strategy(replace(TWO_NODES, bandwidth=FIGURES))
    assert "would give just its speed" in chosen.because
    assert "1.0 times" not in chosen.because


def test_one_is_not_many() -> None:
    assert counted(1, "library") == "1 library" and counted(2, "library") == "2 libraries"
    assert with_verb(1, "core") == "1 core is" and with_verb(0, "core") == "0 cores are"
    assert with_verb(1, "datagram", "was", "were") == "1 datagram was"
    assert [nodes_word(nodes) for nodes in ("3", "2,3", "0-7")] == [
        "node 3",
        "nodes 2,3",
        "nodes 0-7",
    ]
    assert where_of_copy(Event(0.0, 1, "replica", {"nodes": "0-7"})) == "nodes 0-7"
    assert reach_without_engine(2, ()).why == "there is no ggml in it and the library that it loads"
    assert reach_without_engine(3, ()).why.endswith("in it and the 2 libraries that it loads")
    one_page = with_copy(0, sampled_pages=1, sampled_local=1)
    assert "1 of 1 page " in printed(render_mirror(one_page))
    astray = with_copy(0, nodes="0,1", sampled_pages=1, sampled_local=0)
    assert judge_mirror(astray)[0].text == (
        "nodes 0,1: only 0 % of 1 sampled page of the replica lies there"
    )
