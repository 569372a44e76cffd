"""Machines that people have, each booted once: topology, run with a real engine, inspect."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from . import steps
from .catalogue import (
    CPU_NODE_WITHOUT_MEMORY,
    FOUR_NODES,
    MEMORY_ONLY_NODE,
    NUMA_OFF,
    ONE_NODE,
    UNEQUAL_SOCKETS,
)
from .conftest import Boot, Model
from .observed import PAGE_BYTES, nodes_of, pages_in_memory, replicas_by_policy
from .vm import Guest, Result, Step

BOTH = "cpu+memory"


@dataclass(frozen=True)
class Case:
    """A guest and what must come of it.

    kinds, cpus: by node. readers: for each node with CPUs, the node whose copy they read.
    replicas: the nodes that get one. said: parts of what run says on stderr.
    """

    guest: Guest
    kinds: dict[int, str]
    cpus: dict[int, str]
    sockets: list[list[int]]
    home: int
    readers: dict[int, int]
    replicas: frozenset[int]
    said: tuple[str, ...]

    @property
    def mirror_nodes(self) -> list[int]:
        return sorted(set(self.readers.values()))


CASES = (
    Case(
        FOUR_NODES,
        kinds={0: BOTH, 1: BOTH, 2: BOTH, 3: BOTH},
        cpus={0: "0", 1: "1", 2: "2", 3: "3"},
        sockets=[[0, 1], [2, 3]],
        home=0,
        readers={0: 0, 1: 1, 2: 2, 3: 3},
        replicas=frozenset({1, 2, 3}),
        said=("4 nodes, one copy each", "--per socket makes 2 copies instead of 4"),
    ),
    Case(
        MEMORY_ONLY_NODE,
        kinds={0: BOTH, 1: BOTH, 2: "memory"},
        cpus={0: "0", 1: "1", 2: ""},
        sockets=[[0], [1]],
        home=0,
        readers={0: 0, 1: 1},
        replicas=frozenset({1}),
        said=("2 nodes, one copy each", "node 2 is memory without CPUs"),
    ),
    Case(
        UNEQUAL_SOCKETS,
        kinds={0: BOTH, 1: BOTH},
        cpus={0: "0-2", 1: "3"},
        sockets=[[0], [1]],
        home=0,
        readers={0: 0, 1: 1},
        replicas=frozenset({1}),
        said=("2 nodes, one copy each",),
    ),
    Case(
        CPU_NODE_WITHOUT_MEMORY,
        kinds={0: "cpu", 1: BOTH},
        cpus={0: "0", 1: "1"},
        sockets=[[0], [1]],
        home=1,
        readers={0: 1, 1: 1},
        replicas=frozenset(),
        said=("nothing to mirror", "node 0 has no memory"),
    ),
    Case(
        ONE_NODE,
        kinds={0: BOTH},
        cpus={0: "0-1"},
        sockets=[[0]],
        home=0,
        readers={0: 0},
        replicas=frozenset(),
        said=("nothing to mirror",),
    ),
    Case(
        NUMA_OFF,
        kinds={0: BOTH},
        cpus={0: "0-1"},
        sockets=[[0]],
        home=0,
        readers={0: 0},
        replicas=frozenset(),
        said=("nothing to mirror", "numa=off is on the kernel command line"),
    ),
)
MIRRORED = [case for case in CASES if case.replicas]
ALONE = [case for case in CASES if not case.replicas]


def pinning_steps(model: Path) -> list[Step]:
    return [
        steps.watched_threads("threads", model, 4),
        # By itself the engine would have every other thread on node 1.
        steps.watched_threads("pinned threads", model, 4, "--pin", numa="distribute"),
    ]


def guest_name(case: Case) -> str:
    return case.guest.name


@pytest.fixture(scope="module")
def results_of(boot_guest: Boot, model: Model) -> Callable[[Case], dict[str, Result]]:
    """Boots the case's guest at first use; all tests of a case share that boot."""

    @functools.cache
    def results(case_index: int) -> dict[str, Result]:
        guest, path = CASES[case_index].guest, model("tiny-moe-Q8_0")
        return boot_guest(
            guest,
            [
                steps.topology(),
                steps.observed_run("run", path, "--min-size", "1"),
                steps.plain_run("plain", path, threads=len(CASES[case_index].readers)),
                *(pinning_steps(path) if guest is UNEQUAL_SOCKETS else []),
            ],
        )

    return lambda case: results(CASES.index(case))


@pytest.fixture
def results(case: Case, results_of: Callable[[Case], dict[str, Result]]) -> dict[str, Result]:
    return results_of(case)


@pytest.fixture
def machine(results: dict[str, Result]) -> Any:
    return results["topology"].json()


@pytest.fixture
def seen(results: dict[str, Result]) -> Any:
    return results["run"].json()


@pytest.mark.parametrize("case", CASES, ids=guest_name)
class TestEveryMachine:
    def test_topology_shows_what_each_node_has(self, case: Case, machine: Any) -> None:
        assert {node["id"]: node["kind"] for node in machine["nodes"]} == case.kinds
        assert {node["id"]: node["cpus"] for node in machine["nodes"]} == case.cpus
        assert machine["sockets"] == case.sockets

    def test_topology_shows_the_distances_of_the_firmware(self, case: Case, machine: Any) -> None:
        told = tuple(
            tuple(node["distances"][str(other)] for other in case.kinds)
            for node in machine["nodes"]
        )
        nodes = len(case.kinds)
        assert told == (case.guest.distances if nodes > 1 else ((10,),))

    def test_topology_names_home_and_who_reads_where(self, case: Case, machine: Any) -> None:
        assert machine["home"]["node"] == case.home
        assert machine["mirror_nodes"] == case.mirror_nodes
        readers = machine["replica_node_of_cpu_node"]
        assert {int(node): copy for node, copy in readers.items()} == case.readers

    def test_the_output_is_that_of_the_run_without_us(
        self, case: Case, seen: Any, results: dict[str, Result]
    ) -> None:
        assert seen["exit"] == 0
        assert seen["line"] == results["plain"].json()

    def test_run_says_what_it_did(self, case: Case, seen: Any) -> None:
        for phrase in case.said:
            assert phrase in seen["stderr"]


@pytest.mark.parametrize("case", MIRRORED, ids=guest_name)
class TestMachinesWithSomethingToMirror:
    def test_the_child_has_the_policy_of_the_home_node(self, case: Case, seen: Any) -> None:
        assert seen["policy"] == f"prefer:{case.home}"

    def test_every_page_of_every_replica_lies_on_its_node(self, case: Case, seen: Any) -> None:
        assert replicas_by_policy(seen) == {f"prefer:{node}": {node} for node in case.replicas}
        wanted = seen["status"]["mirrored_bytes"] * len(case.replicas)
        assert pages_in_memory(seen) * PAGE_BYTES >= wanted > 0

    def test_every_page_of_the_primary_lies_on_the_home_node(self, case: Case, seen: Any) -> None:
        assert nodes_of(seen["primary"]["pages"]) == {case.home}
        assert "absent" not in seen["primary"]["pages"]

    def test_each_thread_reads_the_copy_of_its_own_node(self, case: Case, seen: Any) -> None:
        assert {read["node"] for read in seen["reads"]} == set(case.readers)
        for read in seen["reads"]:
            at_home = read["node"] == case.home
            assert (read["home_bytes"] > 0) == at_home
            assert (read["replica_bytes"] > 0) != at_home
            assert read["other_bytes"] == 0

    def test_run_shows_where_each_copy_landed(self, case: Case, seen: Any) -> None:
        for node in case.replicas:
            assert f"numamirror: node {node}: replica of" in seen["stderr"]
            assert f"100 % of 512 sampled pages on node {node}" in seen["stderr"]
        assert "coverage 100 %" in seen["stderr"]

    def test_inspect_calls_it_mirrored(self, case: Case, seen: Any) -> None:
        roles = {int(n): c["role"] for n, c in seen["inspect"]["mirror"]["nodes"].items()}
        replicas = dict.fromkeys(case.replicas, "replica")
        assert roles == {case.home: "primary", **replicas}
        copies = len(case.replicas) + 1
        assert seen["inspect"]["verdict"][0]["text"].startswith(f"mirrored: {copies} copies")


@pytest.mark.parametrize("case", ALONE, ids=guest_name)
class TestMachinesWithNothingToMirror:
    def test_run_starts_the_engine_and_touches_nothing(self, case: Case, seen: Any) -> None:
        assert seen["policy"] == "default"
        assert seen["replicas"] == []
        assert seen["status"] is None

    def test_all_that_the_engine_reads_lies_where_the_memory_is(
        self, case: Case, seen: Any
    ) -> None:
        pages = seen["model"]
        assert nodes_of(pages) == {case.home}
        assert pages[str(case.home)] > 0
        assert {node for own in seen["anonymous"].values() for node in nodes_of(own)} == {case.home}

    def test_neither_run_nor_inspect_calls_it_mirrored(self, case: Case, seen: Any) -> None:
        assert seen["run"]["mirror"] is None
        assert seen["inspect"]["mirror"] is None
        for sentence in seen["run"]["verdict"] + seen["inspect"]["verdict"]:
            assert not sentence["text"].startswith("mirrored")

    def test_inspect_does_not_advise_what_cannot_help(self, case: Case, seen: Any) -> None:
        remedies = [sentence["remedy"] for sentence in seen["inspect"]["verdict"]]
        assert not any("numamirror run" in remedy for remedy in remedies)


@pytest.mark.parametrize("case", [c for c in CASES if c.guest is UNEQUAL_SOCKETS], ids=guest_name)
class TestThreads:
    """Four threads, three cores on node 0 and one on node 1; all were bound to node 0."""

    def test_without_pin_they_stay_where_they_were_put(self, results: dict[str, Result]) -> None:
        assert results["threads"].json()["threads"] == {"0": 4}

    def test_with_pin_each_socket_has_as_many_as_cores_against_the_engines_own_numa(
        self, results: dict[str, Result]
    ) -> None:
        seen = results["pinned threads"].json()
        assert seen["threads"] == {"0": 3, "1": 1}
        assert seen["exit"] == 0

    def test_pinned_or_not_the_text_is_the_same(self, results: dict[str, Result]) -> None:
        pinned, free = results["pinned threads"].json(), results["threads"].json()
        assert pinned["first"] == pinned["last"] == free["first"] == free["last"]

    def test_that_the_engine_binds_its_threads_too_is_said(
        self, results: dict[str, Result]
    ) -> None:
        assert "binds the engine's threads anew" in results["pinned threads"].stderr
        assert "binds the engine's threads anew" not in results["threads"].stderr

    def test_the_thread_that_calls_the_engine_gets_its_cpus_back(
        self, results: dict[str, Result]
    ) -> None:
        masks = results["pinned threads"].json()["masks"]
        assert sorted(masks) == [[0, 1, 2], [0, 1, 2], [0, 1, 2, 3], [3]]
