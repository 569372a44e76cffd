"""Machines from public bug reports (field cases M01-M15 and S02), and what is right for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.machine.cores import cpus_in_order
from numamirror_cli.machine.cpulist import format_list, parse_list
from numamirror_cli.machine.home import choose_home
from numamirror_cli.machine.mirror import choose_nodes
from numamirror_cli.machine.model import Machine
from numamirror_cli.machine.read import read_machine

MakeRoot = Callable[..., Path]

TWO_NODES = {0: {"cpus": "0-7"}, 1: {"cpus": "8-15"}}
ASPEED = {
    "address": "0000:03:00.0",
    "pci_class": "0x030000",
    "vendor": "0x1a03",
    "numa_node": 0,
}


def read(root: Path, **environ: str) -> Machine:
    return read_machine(root, environ=environ)


def gpu(number: int = 0, **facts: Any) -> dict[str, Any]:
    """A GPU at 0000:81:00.0, or that many buses further on."""
    return {"address": f"0000:{0x81 + number:02x}:00.0", **facts}


def test_m01_physical_cores_come_before_smt_siblings(make_root: MakeRoot) -> None:
    nodes = {0: {"cpus": "0-31,64-95"}, 1: {"cpus": "32-63,96-127"}}
    machine = read(make_root(nodes, smt_offset=64))
    assert machine.mirror_nodes == (0, 1)
    assert cpus_in_order(machine.node(0)) == (*range(32), *range(64, 96))
    assert cpus_in_order(machine.node(1)) == (*range(32, 64), *range(96, 128))


def test_m01_only_allowed_cpus_are_in_the_order(make_root: MakeRoot) -> None:
    """CPU 64 stands first in its core when its sibling 0 is not allowed."""
    nodes = {0: {"cpus": "0-31,64-95"}, 1: {"cpus": "32-63,96-127"}}
    status = {"Cpus_allowed_list": "1-3,64-66", "Mems_allowed_list": "0-1"}
    machine = read(make_root(nodes, smt_offset=64, status=status))
    assert cpus_in_order(machine.node(0)) == (1, 2, 3, 64, 65, 66)
    assert cpus_in_order(machine.node(1)) == ()


def test_m02_a_node_without_an_allowed_cpu_gets_no_copy(make_root: MakeRoot) -> None:
    status = {"Cpus_allowed_list": "0-7", "Mems_allowed_list": "0-1"}
    machine = read(make_root(TWO_NODES, status=status))
    assert machine.mirror_nodes == (0,)
    assert "node 1: no allowed CPU" in machine.notes


def test_m03_two_sockets_but_one_node(make_root: MakeRoot) -> None:
    machine = read(make_root({0: {"cpus": "0-63"}}, packages={"0-31": 0, "32-63": 1}))
    assert machine.mirror_nodes == (0,)
    assert (
        "two sockets but one node: node interleaving is on in firmware, "
        "mirroring is impossible until it is off"
    ) in machine.notes


def test_m03_a_virtual_machine_is_not_blamed_on_firmware(make_root: MakeRoot) -> None:
    root = make_root({0: {"cpus": "0-1"}}, packages={"0": 0, "1": 1})
    (root / "proc/cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu hypervisor sse2\n")
    (note, *_) = read(root).notes
    assert note == "two sockets but one node: the hypervisor does not show this machine's nodes"


def test_m03_numa_off_is_not_blamed_on_firmware(make_root: MakeRoot) -> None:
    root = make_root({0: {"cpus": "0-1"}}, packages={"0": 0, "1": 1})
    (root / "proc/cmdline").write_text("quiet numa=off\n")
    (note, *_) = read(root).notes
    assert note == "two sockets but one node: numa=off is on the kernel command line"


def test_numa_off_is_noted_on_one_socket_too(make_root: MakeRoot) -> None:
    root = make_root({0: {"cpus": "0-1"}}, packages={"0-1": 0})
    (root / "proc/cmdline").write_text("quiet numa=off\n")
    (note, *_) = read(root).notes
    assert note == "numa=off is on the kernel command line: the kernel shows one node at most"


def test_m03_a_node_that_spans_sockets_is_named(make_root: MakeRoot) -> None:
    packages = {"0-3": 0, "4-7": 1, "8-15": 2}
    machine = read(make_root(TWO_NODES, packages=packages))
    assert machine.notes == (
        "two sockets but node 0 spans them: node interleaving is on in firmware, "
        "mirroring is impossible until it is off",
    )


def test_m03_one_package_per_node_is_no_interleaving(make_root: MakeRoot) -> None:
    machine = read(make_root(TWO_NODES, packages={"0-7": 0, "8-15": 1}))
    assert machine.notes == ()
    assert machine.sockets == ((0,), (1,))


def test_m04_a_kernel_without_numa(tmp_path: Path) -> None:
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    machine = read(tmp_path)
    assert not machine.numa
    assert machine.mirror_nodes == ()
    assert machine.home.node is None
    assert machine.notes[0].startswith("this kernel exposes no NUMA nodes")


def test_m05_only_allowed_cpus_of_a_node_count(make_root: MakeRoot) -> None:
    nodes = {0: {"cpus": "0-47"}, 1: {"cpus": "48-95"}}
    machine = read(make_root(nodes, status={"Cpus_allowed_list": "4-19"}))
    assert machine.mirror_nodes == (0,)
    assert format_list(machine.node(0).allowed_cpus) == "4-19"
    assert "node 1: no allowed CPU" in machine.notes


def test_m06_cpus_without_memory_read_from_the_nearest_node(make_root: MakeRoot) -> None:
    nodes = {
        0: {"cpus": "0-5,24-29", "mem_mib": 0},
        1: {"cpus": "6-11,30-35", "mem_mib": 64307},
        2: {"cpus": "12-17,36-41", "mem_mib": 64472},
        3: {"cpus": "18-23,42-47", "mem_mib": 0},
    }
    rows = [[10 if a == b else 12 for a in range(4)] for b in range(4)]
    machine = read(make_root(nodes, distances=rows))
    assert machine.mirror_nodes == (1, 2)
    assert machine.replica_node_of_cpu_node == {0: 1, 1: 1, 2: 2, 3: 1}
    assert (
        "nodes 0 and 3 have no memory: their CPUs read from the nearest node that has"
        in machine.notes
    )


def test_one_node_with_memory_is_nothing_to_mirror(make_root: MakeRoot) -> None:
    machine = read(make_root({0: {"cpus": "0", "mem_mib": 0}, 1: {"cpus": "1"}}))
    assert machine.mirror_nodes == (1,)
    assert "one node with CPUs and memory: nothing to mirror" in machine.notes


def test_m07_device_memory_is_no_mirror(make_root: MakeRoot) -> None:
    nodes = {0: {"cpus": "0-71"}, **{node: {"cpus": ""} for node in range(1, 9)}}
    machine = read(make_root(nodes))
    assert machine.mirror_nodes == (0,)
    assert "one node with CPUs: nothing to mirror" in machine.notes
    assert any(note.startswith("nodes 1-8 are memory without CPUs") for note in machine.notes)
    assert any("device memory" in note for note in machine.notes)


def test_m08_high_bandwidth_memory_is_used_only_when_named(make_root: MakeRoot) -> None:
    nodes = {
        0: {"cpus": "0-51"},
        1: {"cpus": "52-103"},
        2: {"cpus": "", "mem_mib": 65536},
        3: {"cpus": "", "mem_mib": 65536},
    }
    rows = [[10, 21, 13, 23], [21, 10, 23, 13], [13, 23, 10, 23], [23, 13, 23, 10]]
    machine = read(make_root(nodes, distances=rows))
    assert machine.mirror_nodes == (0, 1)
    assert (
        "nodes 2-3 are memory without CPUs (HBM, CXL or device memory): "
        "used only when named with --nodes" in machine.notes
    )
    assert choose_nodes(machine, [3, 2]) == (2, 3)


def test_m09_a_tie_goes_to_the_lowest_node(make_root: MakeRoot) -> None:
    pci = [
        gpu(n, pci_class="0x030200", vendor="0x10de", numa_node=node)
        for n, node in enumerate([0, 0, 0, 0, 1, 1, 1, 1])
    ]
    machine = read(make_root(TWO_NODES, pci=pci))
    assert machine.home.node == 0
    assert machine.home.reason.startswith("4 of 8 GPUs are there (0000:81:00.0, ")
    assert machine.home.reason.endswith("4:4 tie, lowest node id")


def test_m10_amd_instinct_votes_and_board_vga_does_not(make_root: MakeRoot) -> None:
    instinct = gpu(pci_class="0x120000", vendor="0x1002", numa_node=1)
    matrox = {**ASPEED, "address": "0000:04:00.0", "vendor": "0x102b"}
    machine = read(make_root(TWO_NODES, pci=[ASPEED, matrox, instinct]))
    assert [g.address for g in machine.gpus if g.votes] == ["0000:81:00.0"]
    assert [g.reason for g in machine.gpus if not g.votes] == [
        "board controller (ASPEED 0x1a03): does not vote",
        "board controller (Matrox 0x102b): does not vote",
    ]
    assert machine.home.node == 1
    assert machine.home.reason == "1 of 1 GPUs are there (0000:81:00.0)"


def test_m11_other_display_class_of_amd_votes(make_root: MakeRoot) -> None:
    pci = [gpu(pci_class="0x038000", vendor="0x1002", numa_node=1)]
    assert read(make_root(TWO_NODES, pci=pci)).home.node == 1


def test_m12_intel_data_centre_gpu_votes(make_root: MakeRoot) -> None:
    intel = gpu(pci_class="0x038000", vendor="0x8086", device="0x0bda", numa_node=1)
    machine = read(make_root(TWO_NODES, pci=[ASPEED, intel]))
    assert machine.home.node == 1


def test_m12_intel_graphics_inside_the_processor_does_not(make_root: MakeRoot) -> None:
    inside = {
        "address": "0000:00:02.0",
        "pci_class": "0x030000",
        "vendor": "0x8086",
        "numa_node": 1,
    }
    (found,) = read(make_root(TWO_NODES, pci=[inside])).gpus
    assert not found.votes
    assert found.reason == "part of the processor (Intel on bus 0): does not vote"


def test_m13_a_gpu_passed_through_does_not_vote(make_root: MakeRoot) -> None:
    pci = [gpu(pci_class="0x030000", vendor="0x10de", driver="vfio-pci", numa_node=1)]
    machine = read(make_root(TWO_NODES, pci=pci))
    assert machine.gpus[0].reason == "passed through (vfio-pci): does not vote"
    assert machine.home.node == 0


def test_m14_the_node_is_taken_from_the_bridge_above(make_root: MakeRoot) -> None:
    bridges = [("0000:80:01.0", 0), ("0000:81:00.0", 1), ("0000:82:00.0", -1)]
    pci = [
        {
            "address": "0000:83:00.0",
            "pci_class": "0x030000",
            "vendor": "0x10de",
            "numa_node": -1,
            "bridges": bridges,
        }
    ]
    machine = read(make_root(TWO_NODES, pci=pci))
    assert machine.home.node == 1
    assert machine.gpus[0].reason == "votes for node 1, node taken from the bridge above"


def test_m14_the_node_is_taken_from_local_cpus(make_root: MakeRoot) -> None:
    pci = [gpu(pci_class="0x030000", vendor="0x10de", numa_node=-1, local_cpulist="8-15")]
    machine = read(make_root(TWO_NODES, pci=pci))
    assert machine.home.node == 1
    assert machine.gpus[0].reason == "votes for node 1, node taken from its local CPUs"


def test_m15_a_gpu_near_all_cpus_does_not_vote(make_root: MakeRoot) -> None:
    pci = [gpu(pci_class="0x030000", vendor="0x10de", numa_node=-1, local_cpulist="0-15")]
    machine = read(make_root(TWO_NODES, pci=pci))
    assert machine.home.node == 0
    assert machine.gpus[0].node is None
    assert machine.gpus[0].reason == "node unknown: does not vote"


def test_s02_home_outside_the_allowed_memory_nodes(make_root: MakeRoot) -> None:
    """Named for this run it is an error; set for every run it gives way, and that is said."""
    machine = read(make_root(TWO_NODES, status={"Mems_allowed_list": "1"}))
    assert "node 0 is not in Mems_allowed_list (1)" in machine.notes
    with pytest.raises(NumaMirrorError) as caught:
        choose_home(machine, 0, environ={})
    assert caught.value.message == "--home 0: node 0 is not in Mems_allowed_list (1)"
    assert caught.value.hint == "usable here: node 1"
    assert caught.value.exit_code == 2
    home = choose_home(machine, None, environ={"NUMAMIRROR_HOME": "0"})
    assert home.node == 1
    assert "node 0 is not in Mems_allowed_list (1)" in home.reason


def test_the_made_up_machines_are_read_as_written(make_root: MakeRoot) -> None:
    """Guards the tests above: a machine that is written wrongly would prove nothing."""
    machine = read(make_root(TWO_NODES))
    assert [node.cpus for node in machine.nodes] == [parse_list("0-7"), parse_list("8-15")]
    assert [node.mem_total for node in machine.nodes] == [1 << 30, 1 << 30]
    assert machine.node(1).distances == {0: 20, 1: 10}
