"""Dumps of real machines: nodes, memory, distances, sockets, GPUs and home are what they are.

The expected values lie beside the dumps and were checked against lstopo and the raw files.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.machine.model import Machine
from numamirror_cli.machine.read import read_machine

# name -> why the machine matters
DUMPS = {
    "32em64t-2n8c+dax+nvme+mic+dimms": "board VGA and a co-processor that is no GPU",
    "memorysidecaches": "two nodes per socket",
    "40intel64-2g2n4c+pcilocality": "board VGA without a node, cpuset in /dev",
    "64amd64-4p2n4ca2co": "has_cpu empty, distances that make no groups",
    "32amd64-4s2n4c-cgroup2": "cgroup 2 allows a node and a half",
    "48amd64-4pa2n6c-sparse": "node ids with gaps",
    "256ppc-8n8s4t": "no online file, no cpulist, no package ids",
    "nvidiagpunumanodes": "GPU memory nodes, GPUs without vendor and numa_node",
    "fakememinitiators-1np2c+1npp+gi": "CPU nodes without memory",
    "fakeheteromemtiers": "memory nodes without CPUs",
    "64intel64-fakeKNL-SNC4-hybrid": "MCDRAM nodes, no MemFree",
    "offline-cpu0-node0": "node 0 is offline",
}


@pytest.fixture(scope="module", params=DUMPS, ids=str)
def dump(
    request: pytest.FixtureRequest, shared_dir: Path, unpacked_dump: Callable[[str], Path]
) -> tuple[Machine, dict[str, Any]]:
    expected = json.loads((shared_dir / "topologies/expected.json").read_text())
    return read_machine(unpacked_dump(request.param), environ={}), expected[request.param]


def test_every_dump_is_tested(shared_dir: Path) -> None:
    archives = {path.name for path in (shared_dir / "topologies").glob("*.tar.xz")}
    assert archives == {f"{name}.tar.xz" for name in DUMPS}


def test_nodes_cpus_memory_and_distances(dump: tuple[Machine, dict[str, Any]]) -> None:
    machine, expected = dump
    read = {
        str(node.id): {
            "cpus": format_list(node.cpus),
            "mem_total_kib": _kib(node.mem_total),
            "mem_free_kib": _kib(node.mem_free),
            "distances": list(node.distances.values()),
        }
        for node in machine.nodes
    }
    assert read == expected["nodes"]


def _kib(count: int | None) -> int | None:
    return None if count is None else count // 1024


def test_nodes_that_get_a_copy(dump: tuple[Machine, dict[str, Any]]) -> None:
    machine, expected = dump
    if "mirror_nodes" in expected:
        assert list(machine.mirror_nodes) == expected["mirror_nodes"]
    if "replica_node_of_cpu_node" in expected:
        read = {str(node): copy for node, copy in machine.replica_node_of_cpu_node.items()}
        assert read == expected["replica_node_of_cpu_node"]
        assert machine.mirror_nodes == tuple(sorted(set(read.values())))


def test_sockets_where_they_can_be_known(dump: tuple[Machine, dict[str, Any]]) -> None:
    machine, expected = dump
    if "sockets" in expected:
        assert [list(socket) for socket in machine.sockets] == expected["sockets"]
    for index, socket in enumerate(machine.sockets):
        assert all(machine.node(node).socket == index for node in socket)


def test_voting_gpus_and_their_nodes(dump: tuple[Machine, dict[str, Any]]) -> None:
    machine, expected = dump
    voting = [[gpu.address, gpu.node] for gpu in machine.gpus if gpu.votes]
    assert voting == expected["gpus"]


def test_home(dump: tuple[Machine, dict[str, Any]]) -> None:
    machine, expected = dump
    if "home" in expected:
        assert machine.home.node == expected["home"]
    assert machine.home.node in machine.mirror_nodes


def test_allowed_cpus_and_memory(dump: tuple[Machine, dict[str, Any]]) -> None:
    machine, expected = dump
    allowed = frozenset[int]().union(*(node.allowed_cpus for node in machine.nodes))
    every_cpu = frozenset[int]().union(*(node.cpus for node in machine.nodes))
    assert format_list(allowed) == expected.get("allowed_cpus", format_list(every_cpu))
    if "allowed_mems" in expected:
        mems = [node.id for node in machine.nodes if node.mem_allowed]
        assert format_list(mems) == expected["allowed_mems"]


def test_nothing_in_a_dump_is_taken_for_garbage(dump: tuple[Machine, dict[str, Any]]) -> None:
    machine, _ = dump
    assert not [note for note in machine.notes if note.startswith("/")]


def test_package_less_nodes_are_grouped_by_distance(unpacked_dump: Callable[[str], Path]) -> None:
    machine = read_machine(unpacked_dump("256ppc-8n8s4t"), environ={})
    assert machine.sockets == ((0, 1), (4, 5), (8, 9), (12, 13))


def test_gpu_memory_is_named_and_never_used(unpacked_dump: Callable[[str], Path]) -> None:
    machine = read_machine(unpacked_dump("nvidiagpunumanodes"), environ={})
    assert machine.node(255).gpu == "0004:05:00.0"
    assert not machine.node(255).can_hold_a_copy
    assert "nodes 250-255 are GPU memory: never used for a copy" in machine.notes


def test_cpus_of_a_cgroup_are_used_in_the_order_of_cores(
    unpacked_dump: Callable[[str], Path],
) -> None:
    machine = read_machine(unpacked_dump("32amd64-4s2n4c-cgroup2"), environ={})
    assert format_list(machine.node(1).allowed_cpus) == "4-5"
    assert "nodes 2-7: no allowed CPU" in machine.notes
    assert "nodes 6-7 are not in Mems_allowed_list (0-5)" in machine.notes
