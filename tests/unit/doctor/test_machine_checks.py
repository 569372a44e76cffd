"""Doctor's checks of a machine, on made-up ones, on dumps of real ones, and on field cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from numamirror_cli.doctor.check import BAD, OK, WARN, Check
from numamirror_cli.doctor.diagnosis import diagnose, gather_facts, is_bad
from tests.unit.conftest import MakeRoot, write

TWO = {0: {"cpus": "0-7"}, 1: {"cpus": "8-15"}}


def checks_of(root: Path, environ: Mapping[str, str] | None = None) -> dict[str, Check]:
    return {c.name: c for c in diagnose(gather_facts(root, (), environ or {}))}


def test_a_plain_machine_with_two_nodes_has_nothing_to_cure(make_root: MakeRoot) -> None:
    found = checks_of(make_root(TWO, packages={"0-7": 0, "8-15": 1}))
    assert {check.level for check in found.values()} == {OK}
    assert all(not check.remedy for check in found.values())
    assert found["nodes"].text == "2 mirror nodes: 0-1"
    assert found["sockets"].text == "2 sockets"


def test_m03_two_sockets_but_one_node_is_bad_and_points_at_the_firmware(
    make_root: MakeRoot,
) -> None:
    root = make_root({0: {"cpus": "0-63"}}, packages={"0-31": 0, "32-63": 1})
    sockets = checks_of(root)["sockets"]
    assert sockets.level == BAD
    assert "two sockets but one node: node interleaving is on in firmware" in sockets.text
    assert "turn node interleaving off" in sockets.remedy


@pytest.mark.parametrize(
    ("file", "text", "remedy"),
    [
        ("proc/cmdline", "BOOT_IMAGE=/vmlinuz numa=off quiet\n", "take numa=off from the kernel"),
        ("proc/cpuinfo", "flags : fpu hypervisor sse\n", "give the virtual machine its nodes"),
    ],
)
def test_other_causes_of_hidden_nodes_have_remedies_of_their_own(
    make_root: MakeRoot, file: str, text: str, remedy: str
) -> None:
    root = make_root({0: {"cpus": "0-63"}}, packages={"0-31": 0, "32-63": 1})
    write(root / file, text)
    sockets = checks_of(root)["sockets"]
    assert sockets.level == BAD and remedy in sockets.remedy


def test_m04_a_kernel_without_numa_is_no_fault(tmp_path: Path) -> None:
    found = diagnose(gather_facts(tmp_path, (), {}))
    assert not is_bad(found)
    assert "exposes no NUMA nodes" in found[0].text
    assert "nodes" not in {check.name for check in found}


def test_m06_nodes_without_memory_are_named_with_where_their_cpus_read(
    make_root: MakeRoot,
) -> None:
    nodes = {
        0: {"cpus": "0-5", "mem_mib": 0},
        1: {"cpus": "6-11"},
        2: {"cpus": "12-17"},
        3: {"cpus": "18-23", "mem_mib": 0},
    }
    found = checks_of(make_root(nodes))["nodes"]
    assert found.level == WARN
    assert found.text.startswith("nodes 0 and 3 have no memory")
    assert "copies go to nodes 1-2" in found.text


def test_m08_memory_without_cpus_is_used_only_when_named(make_root: MakeRoot) -> None:
    nodes = {**TWO, 2: {"cpus": "", "mem_mib": 4096}}
    found = checks_of(make_root(nodes))["nodes"]
    assert found.level == OK
    assert "node 2 without CPUs: used only when named with --nodes" in found.text


def test_m02_a_node_of_which_no_cpu_is_allowed_is_named(make_root: MakeRoot) -> None:
    status = {"Cpus_allowed_list": "0-7", "Mems_allowed_list": "0-1"}
    found = checks_of(make_root(TWO, status=status))
    assert found["allowed CPUs"].level == WARN
    assert found["allowed CPUs"].text == "0-7 of 0-15, none of node 1"
    assert "cpuset.cpus" in found["allowed CPUs"].remedy
    assert "only node 0 has both CPUs and memory" in found["nodes"].text


def test_the_cpus_of_one_node_and_the_memory_of_another_make_no_mirror_node(
    make_root: MakeRoot,
) -> None:
    status = {"Cpus_allowed_list": "0-7", "Mems_allowed_list": "1"}
    found = checks_of(make_root(TWO, status=status))["nodes"]
    assert found.text.startswith("no node has both CPUs and memory that may be used")


def test_s02_a_node_outside_the_cpuset_is_named_with_who_reads_elsewhere(
    make_root: MakeRoot,
) -> None:
    status = {"Cpus_allowed_list": "0-15", "Mems_allowed_list": "1"}
    found = checks_of(make_root(TWO, status=status))["allowed memory"]
    assert found.level == WARN
    assert found.text.startswith("node 0 is not in Mems_allowed_list (1)")
    assert "CPUs of node 0 read from other nodes" in found.text


def test_m15_a_gpu_of_unknown_node_does_not_vote_and_home_can_be_given(
    make_root: MakeRoot,
) -> None:
    gpu = {
        "address": "0000:82:00.0",
        "pci_class": "0x030000",
        "vendor": "0x10de",
        "numa_node": -1,
        "local_cpulist": "0-15",
    }
    found = checks_of(make_root(TWO, pci=[gpu]))["GPUs"]
    assert found.level == WARN
    assert "0000:82:00.0" in found.text and "--home" in found.remedy


def test_a_board_controller_of_unknown_node_is_no_matter(make_root: MakeRoot) -> None:
    vga = {
        "address": "0000:09:03.0",
        "pci_class": "0x030000",
        "vendor": "0x102b",
        "numa_node": -1,
        "local_cpulist": "0-15",
    }
    assert "GPUs" not in checks_of(make_root(TWO, pci=[vga]))


def test_a_known_gpu_says_who_is_home(make_root: MakeRoot) -> None:
    gpu = {
        "address": "0000:82:00.0",
        "pci_class": "0x030000",
        "vendor": "0x10de",
        "numa_node": 1,
    }
    found = checks_of(make_root(TWO, pci=[gpu]))["GPUs"]
    assert found.level == OK and found.text.startswith("home node 1: ")


def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_used(make_root: MakeRoot) -> None:
    root = make_root(TWO)
    write(root / "sys/devices/system/node/node1/distance", "ten twenty\n")
    found = checks_of(root)
    assert "/sys/devices/system/node/node1/distance" in found["readings"].text
    assert found["nodes"].level == OK


def test_every_dump_of_a_real_machine_gets_its_checks(
    shared_dir: Path, unpacked_dump: Callable[[str], Path]
) -> None:
    archives = sorted((shared_dir / "topologies").glob("*.tar.xz"))
    assert archives
    for archive in archives:
        root = unpacked_dump(archive.name.removesuffix(".tar.xz"))
        found: Any = diagnose(gather_facts(root, (), {}))
        names = [check.name for check in found]
        assert names[:2] == ["sockets", "nodes"]
        assert all(check.text and check.level in (OK, WARN, BAD) for check in found)
        assert all(check.remedy for check in found if check.level != OK), archive.name
        assert not any(c.level == BAD for c in found if c.name != "sockets"), archive.name
