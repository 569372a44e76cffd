"""Which GPUs vote: visible-devices variables, graphics inside processors, names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from numamirror_cli.machine.model import Machine
from numamirror_cli.machine.read import read_machine

MakeRoot = Callable[..., Path]

NODES = {0: {"cpus": "0-3"}, 1: {"cpus": "4-7"}}
NVIDIA = {"pci_class": "0x030200", "vendor": "0x10de", "device": "0x2204"}
AMD = {"pci_class": "0x038000", "vendor": "0x1002", "device": "0x740f"}
# Two GPUs on node 0, one on node 1.
ADDRESSES = ["0000:21:00.0", "0000:22:00.0", "0000:a1:00.0"]


def write_gpus(make_root: MakeRoot, kind: dict[str, Any]) -> Path:
    nodes = [0, 0, 1]
    pci = [{"address": a, "numa_node": n, **kind} for a, n in zip(ADDRESSES, nodes, strict=True)]
    return make_root(NODES, pci=pci)


@pytest.fixture
def nvidia_root(make_root: MakeRoot) -> Path:
    """Three NVIDIA GPUs with their driver loaded."""
    root = write_gpus(make_root, NVIDIA)
    for number, address in enumerate(ADDRESSES):
        directory = root / "proc/driver/nvidia/gpus" / address
        directory.mkdir(parents=True)
        (directory / "information").write_text(
            "Model: \t\t NVIDIA GeForce RTX 3090\n"
            f"GPU UUID: \t GPU-{number}e2ab3c4-0000-1111-2222-333344445555\n"
            f"Bus Location: \t {address}\n"
        )
    return root


@pytest.fixture
def amd_root(make_root: MakeRoot) -> Path:
    root = write_gpus(make_root, AMD)
    for number, address in enumerate(ADDRESSES):
        (root / "sys/bus/pci/devices" / address / "unique_id").write_text(f"{number}ba5ed\n")
    return root


def voters(root: Path, **environ: str) -> list[int]:
    machine = read_machine(root, environ=environ)
    return [
        n for n, a in enumerate(ADDRESSES) if any(g.address == a and g.votes for g in machine.gpus)
    ]


def notes(root: Path, **environ: str) -> str:
    return "\n".join(read_machine(root, environ=environ).notes)


def test_all_gpus_vote_when_nothing_hides_them(nvidia_root: Path) -> None:
    assert voters(nvidia_root) == [0, 1, 2]


@pytest.mark.parametrize("value", ["", "-1", " ", "-1,0", "NoDevFiles", "99", "9" * 5000])
def test_a_hidden_gpu_does_not_vote(nvidia_root: Path, value: str) -> None:
    assert voters(nvidia_root, CUDA_VISIBLE_DEVICES=value) == []
    machine = read_machine(nvidia_root, environ={"CUDA_VISIBLE_DEVICES": value})
    assert machine.gpus[0].reason == "hidden by CUDA_VISIBLE_DEVICES: does not vote"
    assert machine.home.reason == "no GPU votes, lowest mirror node"


def test_uuids_are_looked_up_with_the_driver(nvidia_root: Path) -> None:
    full = "GPU-2e2ab3c4-0000-1111-2222-333344445555"
    assert voters(nvidia_root, CUDA_VISIBLE_DEVICES=full) == [2]
    assert voters(nvidia_root, CUDA_VISIBLE_DEVICES="GPU-2e2,gpu-0E2") == [0, 2]
    assert voters(nvidia_root, CUDA_VISIBLE_DEVICES=f"MIG-{full}/1/0") == [2]
    assert read_machine(nvidia_root, environ={"CUDA_VISIBLE_DEVICES": full}).home.node == 1


def test_devices_after_an_invalid_entry_are_hidden(nvidia_root: Path) -> None:
    assert voters(nvidia_root, CUDA_VISIBLE_DEVICES="GPU-0,-1,GPU-1") == [0]


@pytest.mark.parametrize("value", ["GPU-dead", "GPU-", "MIG-01234567-89ab"])
def test_a_uuid_that_names_no_single_gpu_hides_nothing_and_is_noted(
    nvidia_root: Path, value: str
) -> None:
    assert voters(nvidia_root, CUDA_VISIBLE_DEVICES=value) == [0, 1, 2]
    assert f"CUDA_VISIBLE_DEVICES={value}: no single GPU is known as {value}" in notes(
        nvidia_root, CUDA_VISIBLE_DEVICES=value
    )


def test_indices_count_only_in_bus_order(nvidia_root: Path) -> None:
    in_bus_order = {"CUDA_VISIBLE_DEVICES": "2", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert voters(nvidia_root, **in_bus_order) == [2]
    assert notes(nvidia_root, **in_bus_order) == ""
    fastest_first = {"CUDA_VISIBLE_DEVICES": "2"}
    assert voters(nvidia_root, **fastest_first) == [0, 1, 2]
    assert "certain only under CUDA_DEVICE_ORDER=PCI_BUS_ID" in notes(nvidia_root, **fastest_first)


def test_all_indices_mean_all_gpus_in_any_order(nvidia_root: Path) -> None:
    assert voters(nvidia_root, CUDA_VISIBLE_DEVICES="2,0,1") == [0, 1, 2]
    assert notes(nvidia_root, CUDA_VISIBLE_DEVICES="2,0,1") == ""


@pytest.mark.parametrize("variable", ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"])
def test_amd_gpus_are_hidden_by_their_own_variables(amd_root: Path, variable: str) -> None:
    assert voters(amd_root, CUDA_VISIBLE_DEVICES="") == [0, 1, 2]
    assert voters(amd_root, **{variable: "-1"}) == []
    assert voters(amd_root, **{variable: "GPU-2BA5ED"}) == [2]
    assert voters(amd_root, **{variable: "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == [0, 1, 2]


def test_a_gpu_hidden_by_either_of_two_variables_does_not_vote(amd_root: Path) -> None:
    assert voters(amd_root, HIP_VISIBLE_DEVICES="0,1,2", ROCR_VISIBLE_DEVICES="GPU-0") == [0]


def read_amd(make_root: MakeRoot, **attributes: Any) -> Machine:
    pci = [{"address": "0000:c4:00.0", "numa_node": 1, **AMD, **attributes}]
    return read_machine(make_root(NODES, pci=pci), environ={})


def test_amd_card_with_its_own_memory_votes(make_root: MakeRoot) -> None:
    machine = read_amd(make_root, mem_info_vram_total=24 << 30)
    assert machine.gpus[0].votes


@pytest.mark.parametrize("count", [0, 512 << 20])
def test_amd_graphics_with_borrowed_memory_do_not_vote(make_root: MakeRoot, count: int) -> None:
    machine = read_amd(make_root, mem_info_vram_total=count)
    assert machine.gpus[0].reason == "without memory of its own: does not vote"


def test_amd_graphics_beside_functions_of_the_processor_do_not_vote(make_root: MakeRoot) -> None:
    inside = {"address": "0000:c4:00.0", "numa_node": 1, **AMD}
    security_processor = {
        "address": "0000:c4:00.2",
        "pci_class": "0x108000",
        "vendor": "0x1022",
    }
    machine = read_machine(make_root(NODES, pci=[inside, security_processor]), environ={})
    assert machine.gpus[0].reason == "without memory of its own: does not vote"


@pytest.mark.parametrize("vendor", ["0x1a03", "0x102b", "0x1234", "0x1013", "0x1af4", "0xbeef"])
def test_display_controllers_of_other_vendors_do_not_vote(make_root: MakeRoot, vendor: str) -> None:
    pci = [{"address": "0000:03:00.0", "pci_class": "0x030000", "vendor": vendor, "numa_node": 1}]
    (device,) = read_machine(make_root(NODES, pci=pci), environ={}).gpus
    assert not device.votes
    assert vendor in device.reason


def test_a_sound_card_is_not_listed(make_root: MakeRoot) -> None:
    pci = [{"address": "0000:21:00.1", "pci_class": "0x040300", "vendor": "0x10de"}]
    assert read_machine(make_root(NODES, pci=pci), environ={}).gpus == ()


def test_gpus_stand_in_order_of_address(make_root: MakeRoot) -> None:
    addresses = ["0001:02:00.0", "0000:c1:00.0", "0000:21:00.0", "10000:01:00.0"]
    pci = [{"address": address, "numa_node": 0, **NVIDIA} for address in addresses]
    machine = read_machine(make_root(NODES, pci=pci), environ={})
    assert [gpu.address for gpu in machine.gpus] == [
        "0000:21:00.0",
        "0000:c1:00.0",
        "0001:02:00.0",
        "10000:01:00.0",
    ]


def test_names_come_from_the_driver_or_from_numbers(nvidia_root: Path) -> None:
    assert read_machine(nvidia_root, environ={}).gpus[0].name == "NVIDIA GeForce RTX 3090"


def test_names_of_a_dump_come_from_udevs_database(make_root: MakeRoot) -> None:
    root = write_gpus(make_root, AMD)
    data = root / "run/udev/data"
    data.mkdir(parents=True)
    (data / "+pci:0000:21:00.0").write_text(
        "I:1\nE:ID_VENDOR_FROM_DATABASE=Big Vendor\nE:ID_MODEL_FROM_DATABASE=Fast Card\n"
    )
    names = [gpu.name for gpu in read_machine(root, environ={}).gpus]
    assert names == ["Big Vendor Fast Card", "AMD 0x740f", "AMD 0x740f"]
