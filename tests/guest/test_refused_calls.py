"""Two nodes, and an engine under a filter that refuses placement calls: replicas are local all the
same, or they are not kept."""

from __future__ import annotations

from typing import Any

import pytest

from .hostile_boot import REFUSED
from .observed import nodes_of
from .vm import Result

LOCAL = ("mbind", "mbind and move_pages")


@pytest.fixture(scope="module")
def results(hostile_boot: dict[str, Result]) -> dict[str, Result]:
    return hostile_boot


@pytest.fixture
def seen(name: str, results: dict[str, Result]) -> Any:
    return results[name].json()


@pytest.mark.parametrize("name", LOCAL)
def test_without_mbind_a_replica_is_filled_on_its_node_and_stays_there(seen: Any) -> None:
    assert seen["replicas"]
    for arena in seen["replicas"]:
        assert nodes_of(arena["pages"]) == {0}
        assert arena["policy"] == "prefer:1"  # the engine's own: none was set for the replica
    assert seen["inspect"]["verdict"][0]["text"].startswith("mirrored: 2 copies")


@pytest.mark.parametrize("name", ["all"])
def test_a_replica_that_nothing_could_place_is_dropped_and_not_claimed(seen: Any) -> None:
    assert all(nodes_of(arena["pages"]) <= {0} for arena in seen["replicas"])
    assert seen["status"]["mirrored_bytes"] == 0
    for sentence in seen["inspect"]["verdict"] + seen["run"]["verdict"]:
        assert not sentence["text"].startswith("mirrored")


@pytest.mark.parametrize("name", REFUSED)
def test_each_refused_call_is_named_once(name: str, seen: Any) -> None:
    for call in {"mbind", "move_pages", "sched_setaffinity"} & named(REFUSED[name]):
        assert seen["stderr"].count(f"{call}: EPERM: blocked by the container's seccomp") == 1


def named(refusals: tuple[str, ...]) -> set[str]:
    return {refusal.partition("=")[0] for refusal in refusals}


@pytest.mark.parametrize("name", REFUSED)
def test_the_output_is_that_of_the_run_without_us(seen: Any, results: dict[str, Result]) -> None:
    assert seen["exit"] == 0
    assert seen["line"] == results["plain"].json()
