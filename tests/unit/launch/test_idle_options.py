"""An option that does nothing under the strategy is said to do nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from numamirror_cli.launch.idle_options import note_on_idle_options
from numamirror_cli.launch.plan import Budget, Wishes
from numamirror_cli.launch.strategies import OBSERVE
from tests.unit.conftest import MakeRoot
from tests.unit.launch.conftest import numamirror_run
from tests.unit.launch.test_strategies import TWO_NODES, UNREACHED, planned

ALL: dict[str, Any] = {
    "budget": Budget(share=0.5),
    "adapt": 100,
    "copy_home": True,
    "heal": False,
    "pin": True,
}
FOR_COPIES = "--budget and --adapt and --copy-home and --no-heal"


@pytest.fixture
def root(make_root: MakeRoot) -> Path:
    return make_root(TWO_NODES)


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("shard", FOR_COPIES),
        ("interleave", FOR_COPIES),
        (OBSERVE, FOR_COPIES),
        ("bind", FOR_COPIES),
        ("prefer", f"{FOR_COPIES} and --pin"),
        ("none", f"{FOR_COPIES} and --pin"),
    ],
)
def test_options_of_a_mirror_are_named_under_another_strategy(
    root: Path, strategy: str, options: str
) -> None:
    note = note_on_idle_options(planned(root, strategy, wishes=ALL), Wishes(**ALL))
    assert note is not None
    assert note.what == f"{options}: no effect"
    assert note.why == f"strategy {strategy} makes no copies"


def test_nothing_is_said_under_a_mirror_and_without_such_options(root: Path) -> None:
    assert note_on_idle_options(planned(root, "mirror", wishes=ALL), Wishes(**ALL)) is None
    assert note_on_idle_options(planned(root, "shard"), Wishes()) is None


def test_where_there_can_be_no_mirror_its_reason_is_enough(root: Path) -> None:
    plan = planned(root, "mirror", wishes=ALL, preload=UNREACHED)
    assert plan.strategy == "prefer"
    assert note_on_idle_options(plan, Wishes(**ALL)) is None


def test_run_says_it(root: Path) -> None:
    options = ("--dry-run", "--root", root, "--strategy", "none", "--budget", "1G")
    shown = numamirror_run(*options, "true").stdout
    assert "  --budget: no effect: strategy none makes no copies" in shown.splitlines()
