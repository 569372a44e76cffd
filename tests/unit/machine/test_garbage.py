"""Broken files in /sys and /proc: the file is named, and the rest is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numamirror_cli.machine.model import Machine
from numamirror_cli.machine.read import read_machine

MakeRoot = Callable[..., Path]

NODE_DIR = "sys/devices/system/node"
NODES = {0: {"cpus": "0-3"}, 1: {"cpus": "4-7"}}
GPU = {
    "address": "0000:81:00.0",
    "pci_class": "0x030000",
    "vendor": "0x10de",
    "device": "0x2204",
    "numa_node": 1,
    "local_cpulist": "4-7",
}
STATUS = {"Cpus_allowed_list": "0-7", "Mems_allowed_list": "0-1"}


@pytest.fixture
def root(make_root: MakeRoot) -> Path:
    return make_root(NODES, status=STATUS, packages={"0-3": 0, "4-7": 1}, pci=[GPU])


def read(root: Path) -> Machine:
    return read_machine(root, environ={})


def test_the_machine_is_sound_before_it_is_broken(root: Path) -> None:
    machine = read(root)
    assert machine.notes == ()
    assert machine.home.node == 1


@pytest.mark.parametrize(
    ("path", "text", "note"),
    [
        (
            f"{NODE_DIR}/node0/meminfo",
            "Node 0 MemTotal: banana kB\nNode 0 MemFree: 4 kB\n",
            f"/{NODE_DIR}/node0/meminfo: line ignored: 'Node 0 MemTotal: banana kB'",
        ),
        (
            f"{NODE_DIR}/online",
            "zero-one",
            f"/{NODE_DIR}/online: not a CPU or node list: 'zero-one'",
        ),
        (
            f"{NODE_DIR}/online",
            "0-2\n",
            f"/{NODE_DIR}/online: node 2 is online but has no directory",
        ),
        (
            f"{NODE_DIR}/node0/distance",
            "10 20 30 40\n",
            f"/{NODE_DIR}/node0/distance: 4 distances for 2 online nodes: ignored",
        ),
        (
            f"{NODE_DIR}/node0/distance",
            "ten\n",
            f"/{NODE_DIR}/node0/distance: not a row of distances: 'ten'",
        ),
        (
            f"{NODE_DIR}/node1/cpumap",
            "xyz\n",
            f"/{NODE_DIR}/node1/cpumap: not a CPU mask: 'xyz'",
        ),
        (
            "proc/self/status",
            "Cpus_allowed_list:\tall\nMems_allowed_list:\t0-1\n",
            "/proc/self/status: Cpus_allowed_list: not a CPU or node list: '\\tall'",
        ),
        (
            "sys/bus/pci/devices/0000:81:00.0/numa_node",
            "7\n",
            "/sys/bus/pci/devices/0000:81:00.0/numa_node: there is no node 7",
        ),
        (
            "sys/bus/pci/devices/0000:81:00.0/device",
            "\x1b[31m\n",
            "/sys/bus/pci/devices/0000:81:00.0/device: not a number: '\\x1b[31m'",
        ),
    ],
)
def test_a_broken_file_is_named_and_the_rest_used(
    root: Path, path: str, text: str, note: str
) -> None:
    sound = read(root)
    (root / path).write_text(text)
    machine = read(root)
    assert note in machine.notes
    assert [node.cpus for node in machine.nodes] == [node.cpus for node in sound.nodes]
    assert machine.home.node == 1


def test_an_unreadable_directory_in_place_of_a_file_is_named(root: Path) -> None:
    (root / NODE_DIR / "node0/meminfo").unlink()
    (root / NODE_DIR / "node0/meminfo").mkdir()
    machine = read(root)
    assert f"/{NODE_DIR}/node0/meminfo: Is a directory" in machine.notes
    assert machine.node(0).mem_total is None


def test_cpumap_is_believed_where_cpulist_disagrees(root: Path) -> None:
    (root / NODE_DIR / "node0/cpumap").write_text("00000000,00000003\n\0")
    assert read(root).node(0).cpus == {0, 1}


def test_a_stale_has_cpu_is_not_consulted(root: Path) -> None:
    (root / NODE_DIR / "has_cpu").write_text("\n")
    (root / NODE_DIR / "has_memory").write_text("0\n")
    assert read(root).mirror_nodes == (0, 1)


def test_nuls_after_the_newline_are_ignored(root: Path) -> None:
    for path in (f"{NODE_DIR}/online", f"{NODE_DIR}/node0/distance", f"{NODE_DIR}/node0/cpulist"):
        (root / path).write_text((root / path).read_text() + "\0")
    machine = read(root)
    assert machine.notes == ()
    assert machine.node(0).distances == {0: 10, 1: 20}


def test_distances_of_a_node_that_went_away_are_by_possible_nodes(root: Path) -> None:
    (root / NODE_DIR / "online").write_text("1\n")
    (root / NODE_DIR / "possible").write_text("0-1\n")
    assert read(root).node(1).distances == {0: 20, 1: 10}


def test_a_loop_of_links_on_the_bus_is_survived(root: Path) -> None:
    bus = root / "sys/bus/pci/devices"
    (bus / "0000:82:00.0").symlink_to("0000:82:00.0")
    assert [gpu.address for gpu in read(root).gpus] == ["0000:81:00.0"]


FILES = [
    f"{NODE_DIR}/online",
    f"{NODE_DIR}/node0/meminfo",
    f"{NODE_DIR}/node0/cpulist",
    f"{NODE_DIR}/node0/cpumap",
    f"{NODE_DIR}/node0/distance",
    "sys/devices/system/cpu/cpu0/topology/core_cpus_list",
    "sys/devices/system/cpu/cpu0/topology/physical_package_id",
    "sys/bus/pci/devices/0000:81:00.0/class",
    "sys/bus/pci/devices/0000:81:00.0/vendor",
    "sys/bus/pci/devices/0000:81:00.0/device",
    "sys/bus/pci/devices/0000:81:00.0/numa_node",
    "sys/bus/pci/devices/0000:81:00.0/local_cpulist",
    "sys/bus/pci/devices/0000:81:00.0/mem_info_vram_total",
    "proc/self/status",
    "proc/self/cpuset",
    "proc/mounts",
    "proc/cmdline",
    "proc/cpuinfo",
    "proc/driver/nvidia/gpus/0000:81:00.0/information",
    "proc/driver/nvidia/gpus/0000:81:00.0/numa_status",
]

# Bytes at random, and texts that are nearly right.
NEARLY = st.text(alphabet="0123456789-,:/xaf \nNodeMTtalkB_\0", max_size=200).map(str.encode)


@settings(
    max_examples=300,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(path=st.sampled_from(FILES), content=st.binary(max_size=200) | NEARLY)
def test_no_content_of_any_file_is_fatal(root: Path, path: str, content: bytes) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    before = file.read_bytes() if file.exists() else None
    file.write_bytes(content)
    try:
        machine = read(root)
    finally:
        if before is None:
            file.unlink()
        else:
            file.write_bytes(before)
    assert all(note.isprintable() for note in machine.notes)
    assert all(copy in machine.mirror_nodes for copy in machine.replica_node_of_cpu_node.values())


@pytest.mark.parametrize("content", ["9" * 5000, "0x" + "f" * 5000, "-9", "0" * 5000, "²", "٣"])
@pytest.mark.parametrize("path", FILES)
def test_numbers_beyond_all_bounds_are_survived(root: Path, path: str, content: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"Node: {content}\n" if path.endswith("numa_status") else content)
    read(root)
