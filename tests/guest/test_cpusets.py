"""Two nodes, and a cpuset (cgroup v2) that allows less than all of them."""

from __future__ import annotations

from typing import Any

import pytest

from .hostile_boot import CPUSETS
from .observed import nodes_of
from .vm import Result


@pytest.fixture(scope="module")
def results(hostile_boot: dict[str, Result]) -> dict[str, Result]:
    return hostile_boot


@pytest.fixture(params=CPUSETS)
def name(request: pytest.FixtureRequest) -> str:
    cpuset: str = request.param
    return cpuset


@pytest.fixture
def seen(name: str, results: dict[str, Result]) -> Any:
    return results[f"{name}, run"].json()


@pytest.mark.parametrize(
    ("name", "kinds", "readers"),
    [
        ("one node", {0: "cpu+memory", 1: "empty"}, {"0": 0}),
        ("far memory", {0: "cpu+memory", 1: "memory"}, {"0": 0}),
        ("far CPUs", {0: "cpu+memory", 1: "cpu"}, {"0": 0, "1": 0}),
    ],
)
def test_topology_shows_what_the_cpuset_leaves(
    name: str, kinds: dict[int, str], readers: dict[str, int], results: dict[str, Result]
) -> None:
    machine = results[f"{name}, topology"].json()
    assert {node["id"]: node["kind"] for node in machine["nodes"]} == kinds
    assert machine["replica_node_of_cpu_node"] == readers
    assert machine["mirror_nodes"] == [0]


def test_gpus_on_a_node_without_a_copy_do_not_make_it_home(
    name: str, results: dict[str, Result]
) -> None:
    assert results[f"{name}, topology"].json()["home"]["node"] == 0


def test_no_copy_is_made_where_no_allowed_cpu_would_read_it(seen: Any) -> None:
    assert seen["replicas"] == []
    assert "nothing to mirror" in seen["stderr"]


def test_the_output_is_that_of_the_run_without_us(seen: Any, results: dict[str, Result]) -> None:
    assert seen["exit"] == 0
    assert seen["line"] == results["plain, one thread"].json()


@pytest.mark.parametrize("name", ["one node", "far CPUs"])
def test_the_node_that_the_cpuset_forbids_is_named(seen: Any) -> None:
    assert "node 1 is not in Mems_allowed_list (0)" in seen["stderr"]


@pytest.mark.parametrize(
    ("name", "policy"),
    [("one node", "default"), ("far memory", "prefer:0"), ("far CPUs", "default")],
)
def test_a_policy_is_set_only_where_memory_could_land_elsewhere(policy: str, seen: Any) -> None:
    assert seen["policy"] == policy


def test_all_that_the_engine_reads_lies_on_the_node_of_its_cpus(seen: Any) -> None:
    assert nodes_of(seen["model"]) == {0}
    [own] = seen["anonymous"].values()
    assert own["0"] > 0.99 * sum(own.values())


def test_inspect_shows_the_cpuset_and_advises_nothing_that_cannot_help(
    name: str, seen: Any
) -> None:
    assert seen["inspect"]["cpuset"]["mems"] == CPUSETS[name]["cpuset.mems"]
    remedies = [sentence["remedy"] for sentence in seen["inspect"]["verdict"]]
    assert not any("numamirror run" in remedy for remedy in remedies)


def test_a_home_that_the_cpuset_forbids_is_refused_before_anything_starts(
    results: dict[str, Result],
) -> None:
    refused = results["one node, home 1"]
    assert refused.code == 2
    assert "--home 1: node 1 is not in Mems_allowed_list (0)" in refused.stderr
    assert "node 0" in refused.stderr
