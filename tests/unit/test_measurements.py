"""The arithmetic of `make bench`: what it says of the values that it measured is right."""

from __future__ import annotations

import random
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import __main__ as bench
from bench import figures, machine, page, text
from bench.figures import ALONE, DIFFERENCE, RATIO, alone, alternate, compared, interval, spread


def test_a_spread_has_median_least_and_greatest() -> None:
    said = spread([3.0, 1.0, 2.0, 10.0])
    assert (said.median, said.min, said.max, said.count) == (2.5, 1.0, 10.0, 4)


@pytest.mark.parametrize(
    ("count", "low", "high"),
    # Ranks as tables of the sign test give them, for 95 %.
    [(1, 1, 1), (5, 1, 5), (6, 1, 6), (9, 2, 8), (24, 7, 18), (40, 14, 27)],
)
def test_the_interval_of_a_median_has_the_ranks_of_the_sign_test(
    count: int, low: int, high: int
) -> None:
    values = [float(value) for value in range(1, count + 1)]
    random.Random(count).shuffle(values)
    assert interval(values) == (low, high)


def test_the_interval_holds_the_true_median_nineteen_times_in_twenty() -> None:
    numbers = random.Random(27986)
    # Skewed, as times are: the median of an exponential distribution is log 2.
    held = 0
    for _ in range(2000):
        low, high = interval([numbers.expovariate(1.0) for _ in range(24)])
        held += low <= 0.6931 <= high
    assert 0.94 <= held / 2000 <= 0.985


def test_a_ratio_is_of_runs_that_followed_each_other() -> None:
    # A machine that gets slower for both leaves the ratio alone.
    figure = compared("x", "s", [2.0, 20.0, 200.0], "y", [1.0, 10.0, 100.0], RATIO)
    assert figure.result is not None
    assert (figure.result.min, figure.result.max) == (2.0, 2.0)


def test_a_difference_is_of_runs_that_followed_each_other() -> None:
    figure = compared("x", "ns", [5.0, 6.0, 9.0], "y", [1.0, 1.0, 1.0], DIFFERENCE, "<= 5")
    assert figure.result is not None
    assert figure.result.median == 5.0
    assert figure.met is True


@pytest.mark.parametrize(
    ("goal", "met"), [(">= 2", True), (">= 2.1", False), ("<= 2", True), ("<= 1.9", False)]
)
def test_a_goal_is_held_against_the_median(goal: str, met: bool) -> None:
    assert alone("x", "s", [1.0, 2.0, 30.0], goal).met is met


def test_a_goal_for_our_own_value_is_not_held_against_the_ratio() -> None:
    figure = compared("x", "ms", [40.0], "y", [1.0], ALONE, "<= 60")
    assert figure.met is True
    assert text.cells(figure)[4] == ""


def test_runs_alternate_back_and_forth() -> None:
    order: list[str] = []

    def run(name: str) -> float:
        order.append(name)
        return 0.0

    alternate(3, {name: partial(run, name) for name in "ab"})
    assert "".join(order) == "abbaab"


def test_what_was_saved_is_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    page.PAGE.write_text(f"before\n{page.BEGIN}old\n{page.END}after\n")
    figure = compared("speed", "GiB/s", [2.0, 4.0], "plain", [1.0, 2.0], RATIO, ">= 3")
    figures.save("calls", {"kernel": "6.1"}, [figure])
    page.write()
    shown = page.PAGE.read_text()
    assert shown.startswith("before\n")
    assert shown.endswith("after\n")
    assert "old" not in shown
    assert "kernel 6.1" in shown
    row = "| speed (GiB/s) | 3 (2-4) | plain | 1.5 (1-2) | x 2 [2, 2] | >= 3 NOT met |"
    assert row in shown


def test_the_page_has_the_tables_of_the_results_that_are_kept() -> None:
    between = page.PAGE.read_text().partition(page.BEGIN)[2].partition(page.END)[0]
    assert between == page.tables()
    assert "| goal |" in between


def test_a_measurement_that_fails_is_shown_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    monkeypatch.setattr(page, "write", lambda: None)
    for name, measure in {
        "calls": lambda quick: sys.exit("no engine"),
        "tokens": lambda quick: [],
    }.items():
        monkeypatch.setitem(sys.modules, f"bench.{name}", SimpleNamespace(measure=measure))
    monkeypatch.setattr(sys, "argv", ["bench", "calls", "tokens"])
    assert bench.main() == 1
    assert "no engine" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["tokens.json"]


def test_what_other_programs_took_is_all_but_idle_time_and_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = tmp_path / "stat"
    monkeypatch.setattr(machine, "STAT", stat)
    stat.write_text("cpu  1000 0 1000 9000 500 0 0 0 0 0\ncpu0 1 2 3\n")
    before = machine.others_seconds()
    stat.write_text("cpu  9000 0 3000 99000 9500 100 100 800 0 0\ncpu0 1 2 3\n")
    assert machine.others_seconds() - before == pytest.approx(110, abs=5)
