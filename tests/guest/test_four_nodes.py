"""Four nodes in two sockets: one copy per socket, spread over the socket's nodes; and what each
strategy gives when there is a thread on each node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from . import steps
from .catalogue import FOUR_NODES
from .conftest import Boot, Model
from .observed import nodes_of
from .vm import Result
from .weight_pages import local_share

MODEL = "broad-moe-Q8_0"
ALL_WEIGHTS = ("--min-size", "1")


@pytest.fixture(scope="module")
def results(
    boot_guest: Boot, model: Model, matrices_of: Callable[[str], Path]
) -> dict[str, Result]:
    path = model(MODEL)
    rows = ("--matrices", str(matrices_of(MODEL)))
    observed = steps.strategy_run("nothing", path, "--hold", *rows, "--observe", *ALL_WEIGHTS)
    spread = ("--hold", *rows, "--strategy", "interleave", *ALL_WEIGHTS)
    its_own = steps.strategy_run("", path, *rows, "--strategy", "none", numa="distribute")
    return boot_guest(
        FOUR_NODES,
        [
            steps.observed_run("run", path, *ALL_WEIGHTS, "--per", "socket"),
            steps.plain_run("plain", path, threads=4),
            steps.page_cache_on_node("warmed", 0, path),
            observed,
            replace(its_own, name="its own, warm"),
            steps.drop_caches("cold at first"),
            steps.strategy_run("bind", path, *rows, "--strategy", "bind", threads=1),
            steps.strategy_run("interleave", path, *spread),
            steps.drop_caches("cold"),
            replace(its_own, name="its own, cold"),
            steps.strategy_run("shard", path, *rows, "--strategy", "shard", *ALL_WEIGHTS),
            steps.strategy_run("mirror", path, "--hold", "--strategy", "mirror", *ALL_WEIGHTS),
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
    assert "numamirror: nodes 2,3: replica of" in seen["stderr"]
    assert "100 % of 512 sampled pages on nodes 2,3" in seen["stderr"]
    assert "numamirror: nodes 0,1: primary of" in seen["stderr"]
    assert seen["inspect"]["verdict"][0]["text"].startswith("mirrored: 2 copies")


def test_inspect_does_not_call_the_spread_replica_misplaced(seen: Any) -> None:
    verdict = seen["inspect"]["verdict"]
    assert not [sentence for sentence in verdict if sentence["level"] == "bad"]


@pytest.mark.parametrize(
    "name", ["nothing", "its own, warm", "its own, cold", "interleave", "shard", "mirror"]
)
def test_four_threads_write_the_same_whatever_the_strategy(
    results: dict[str, Result], name: str
) -> None:
    strategy = results[name].json()
    assert strategy["first"] == strategy["last"] == results["plain"].json()
    assert strategy["exit"] == 0


@pytest.mark.parametrize("name", ["nothing", "interleave"])
def test_a_quarter_is_local_of_four_nodes_with_nothing_and_interleaved(
    results: dict[str, Result], name: str
) -> None:
    strategy = results[name].json()
    assert strategy["locality"] == pytest.approx(0.25, abs=0.05)
    assert local_share(strategy["rows"]) == pytest.approx(0.25, abs=0.05)


def test_interleave_spreads_the_weights_over_all_four_nodes(results: dict[str, Result]) -> None:
    """They were in the page cache of one node: the run before was bound to it."""
    strategy = results["interleave"].json()
    assert strategy["state"] == "interleaved"
    assert [role for role, _, _ in strategy["copies"]] == ["part"] * 4
    assert all(local > 0 for _, local, _ in strategy["copies"])


def test_bound_to_one_of_four_nodes_all_rows_are_there(results: dict[str, Result]) -> None:
    bound = results["bind"].json()
    assert bound["first"] == results["plain"].json()
    assert local_share(bound["rows"]) == 1.0  # of the one node whose CPUs it may use


def test_shard_reads_from_four_nodes_locally_at_one_copy(results: dict[str, Result]) -> None:
    shard = results["shard"].json()
    assert shard["state"] == "sharded"
    assert shard["locality"] >= 0.98
    assert local_share(shard["rows"]) >= 0.98


def test_a_mirror_on_four_nodes_is_all_local(results: dict[str, Result]) -> None:
    mirror = results["mirror"].json()
    assert mirror["locality"] == 1.0
    assert sorted(min(nodes_of(arena["pages"])) for arena in mirror["arenas"]) == [1, 2, 3]
    assert all(len(nodes_of(arena["pages"])) == 1 for arena in mirror["arenas"])


def test_the_engines_own_distribute_on_four_nodes_is_local_from_a_cold_page_cache_only(
    results: dict[str, Result],
) -> None:
    assert local_share(results["its own, warm"].json()["rows"]) == pytest.approx(0.25, abs=0.05)
    assert local_share(results["its own, cold"].json()["rows"]) > 0.9
