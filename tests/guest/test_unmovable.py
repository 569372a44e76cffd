"""A primary on the wrong node that cannot be brought home: said once, home gets a replica of its
own, and what is clean page cache is released. Figures are the kernel's (move_pages, mincore)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from .hostile_boot import IN_PLACE, PROBES
from .vm import Result

REASONS = {
    "registered": "the pages are pinned, as memory registered with a GPU is",
    "in flight": "the pages are pinned, as memory registered with a GPU is",
    "shared": "other processes map the same file, and its pages are theirs too",
}
NOT_AT_HOME = "the weights were not at home: "
PAGES_PER_MIB = 256


@pytest.fixture
def result(how: str, hostile_boot: dict[str, Result]) -> Result:
    return hostile_boot[how]


@pytest.fixture
def seen(result: Result) -> Any:
    return result.json()


@pytest.mark.parametrize("how", IN_PLACE)
def test_the_weights_lay_on_the_wrong_node_before(seen: Any) -> None:
    assert seen["before"].get("0", 0) > 0
    assert seen["before"].get("1", 0) == 0


@pytest.mark.parametrize(("how", "where"), [("registered", "after"), ("shared", "cached")])
def test_pages_that_cannot_move_stay_where_they_are(seen: Any, where: str) -> None:
    assert seen[where].get("0", 0) >= seen["before"]["0"]
    assert seen[where].get("1", 0) == 0


@pytest.mark.parametrize("how", REASONS)
def test_that_they_do_not_move_is_said_once_with_the_reason(how: str, result: Result) -> None:
    [line] = [line for line in result.stderr.splitlines() if NOT_AT_HOME in line]
    assert "0 of 512 sampled pages on node 1 before moving them" in line
    assert f": {REASONS[how]} (the home node gets a replica of its own)" in line


@pytest.mark.parametrize("how", IN_PLACE)
def test_home_gets_a_replica_of_its_own(result: Result) -> None:
    for node in (0, 1):
        landed = rf"node {node}: replica of .*, 100 % of 512 sampled pages on node {node}"
        assert re.search(landed, result.stderr), result
    assert "coverage 100 %" in result.stderr


@pytest.mark.parametrize("how", ["in flight"])
def test_clean_page_cache_that_nobody_else_needs_is_released_and_that_is_said(
    result: Result, seen: Any
) -> None:
    released = re.search(
        r"released (\d+) MiB of page cache behind the engine's own weights: "
        "every node reads its replica instead",
        result.stderr,
    )
    assert released is not None, result
    gone = sum(seen["before"].values()) - sum(seen["cached"].values())
    # Since then the engine has read its token embeddings, which are none of a GEMM's.
    assert 0 < gone <= (int(released[1]) + 1) * PAGES_PER_MIB


@pytest.mark.parametrize("how", ["shared", "free"])
def test_page_cache_that_others_use_or_the_user_keeps_is_not_released(
    result: Result, seen: Any
) -> None:
    assert "released" not in result.stderr
    assert sum(seen["cached"].values()) >= sum(seen["before"].values())


@pytest.mark.parametrize("how", ["free"])
def test_no_heal_leaves_all_as_it_is(result: Result, seen: Any) -> None:
    assert NOT_AT_HOME not in result.stderr
    assert seen["after"] == seen["before"]


def places_after_a_probe(hostile_boot: dict[str, Result], probe: str) -> Any:
    """By third of the memory, the pages that the kernel finds on node 0 and on node 1."""
    seen = hostile_boot[f"probe {probe}"].json()
    third = sum(seen["thirds"][0])
    assert [sum(pages) for pages in seen["thirds"]] == [third] * 3
    assert seen["thirds"][0] == [third, 0]  # the pinned one
    assert seen["busy"]
    assert seen["pages"] == PROBES[probe] * third
    return seen["thirds"]


def test_when_the_probe_does_not_move_the_rest_is_left_alone(
    hostile_boot: dict[str, Result],
) -> None:
    _, *rest = places_after_a_probe(hostile_boot, "of what is pinned")
    assert [moved for _, moved in rest] == [0, 0]


def test_when_most_of_the_probe_moves_all_is_moved_that_can_be(
    hostile_boot: dict[str, Result],
) -> None:
    _, *rest = places_after_a_probe(hostile_boot, "of all")
    assert [left for left, _ in rest] == [0, 0]


def test_pages_behind_some_that_do_not_move_are_moved_all_the_same(
    hostile_boot: dict[str, Result],
) -> None:
    """The kernel ends its work where pages to another node follow those."""
    seen = hostile_boot["batch"].json()
    pinned, there_already, behind = seen["thirds"]
    assert seen["busy"]
    assert pinned == there_already == [sum(pinned), 0]
    assert behind == [0, sum(pinned)]


@pytest.mark.parametrize("how", IN_PLACE)
def test_the_text_from_the_copies_is_that_of_the_primary(result: Result, seen: Any) -> None:
    first, from_copies, from_primary = seen["texts"]
    assert result.code == 0
    assert first == from_copies == from_primary
