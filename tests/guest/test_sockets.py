"""Four nodes in two sockets with one copy per socket, spread over the socket's nodes."""

from __future__ import annotations

from typing import Any

import pytest

from . import steps
from .catalogue import FOUR_NODES
from .conftest import Boot, Model
from .observed import nodes_of
from .vm import Result


@pytest.fixture(scope="module")
def results(boot_guest: Boot, model: Model) -> dict[str, Result]:
    path = model("tiny-moe-Q8_0")
    return boot_guest(
        FOUR_NODES,
        [
            steps.observed_run("run", path, "--min-size", "1", "--per", "socket"),
            steps.plain_run("plain", path, threads=4),
        ],
    )


@pytest.fixture(scope="module")
def seen(results: dict[str, Result]) -> Any:
    return results["run"].json()


def test_there_is_one_copy_per_socket(seen: Any) -> None:
    assert [copy["nodes"] for copy in seen["run"]["plan"]["copies"]] == [[0, 1], [2, 3]]
    assert len(seen["replicas"]) == 1  # the home socket reads the primary


def test_the_replica_is_spread_evenly_over_its_socket(seen: Any) -> None:
    (arena,) = seen["replicas"]
    assert arena["policy"] == "interleave:2-3"
    assert nodes_of(arena["pages"]) == {2, 3}
    assert min(arena["pages"]["2"], arena["pages"]["3"]) * 3 >= max(
        arena["pages"]["2"], arena["pages"]["3"]
    )


def test_each_thread_reads_the_copy_of_its_socket(seen: Any) -> None:
    reads = {read["node"]: read for read in seen["reads"]}
    assert {node for node, read in reads.items() if read["home_bytes"]} == {0, 1}
    assert {node for node, read in reads.items() if read["replica_bytes"]} == {2, 3}
    assert {read["other_bytes"] for read in seen["reads"]} == {0}


def test_the_output_is_that_of_the_run_without_us(seen: Any, results: dict[str, Result]) -> None:
    assert seen["line"] == results["plain"].json()


def test_run_and_inspect_speak_of_sockets(seen: Any) -> None:
    assert "2 sockets, one copy each" in seen["stderr"]
    assert seen["inspect"]["verdict"][0]["text"].startswith("mirrored: 2 copies")


def test_inspect_does_not_call_the_spread_replica_misplaced(seen: Any) -> None:
    verdict = seen["inspect"]["verdict"]
    assert not [sentence for sentence in verdict if sentence["level"] == "bad"]
