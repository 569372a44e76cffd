"""Display and accelerator devices on the PCI bus, as sysfs describes them.

The attributes are those of the kernel's Documentation/ABI/testing/sysfs-bus-pci. On the running
system libudev (pyudev) is asked for what it knows of them; under another root, or without libudev,
the directory has to do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numamirror_cli.machine import hwdb
from numamirror_cli.machine.cpulist import parse_list, parse_mask
from numamirror_cli.machine.names import NVIDIA, NVIDIA_DIR, device_name
from numamirror_cli.machine.tree import Tree, integer

DEVICES_DIR = "sys/bus/pci/devices"

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)


@dataclass(frozen=True)
class PciDevice:
    """A display (class 0x03), accelerator (0x12) or co-processor (0x0b40) device.

    numa_node: as the kernel says, None for -1 or no file. bridge_node: that of the nearest bridge
    above which has one. local_cpus: CPUs near it, empty when unknown. video_memory: bytes that the
    amdgpu driver reports, None elsewhere. beside_amd_cpu: another function of the same device
    belongs to an AMD processor, as it does where the GPU is part of one.
    """

    address: str
    pci_class: int
    vendor: int | None
    name: str
    driver: str | None = None
    numa_node: int | None = None
    bridge_node: int | None = None
    local_cpus: frozenset[int] = frozenset()
    video_memory: int | None = None
    beside_amd_cpu: bool = False
    unique_id: str | None = None

    @property
    def bus(self) -> int:
        """The bus number: 0x82 of "0000:82:01.0"."""
        return int(self.address.split(":")[1], 16)


def read_devices(tree: Tree) -> tuple[PciDevice, ...]:
    """The display and accelerator devices, in order of their addresses."""
    classes = _classes_that_matter(tree, tree.names(DEVICES_DIR))
    # A library, and 20 ms: not for a machine that has no such device.
    udev_devices = _list_through_udev() if classes and tree.live else {}
    found = []
    for address, pci_class in classes.items():
        device = udev_devices.get(address)
        # What udevd wrote down from the hardware database, if there is an udevd.
        name = hwdb.name_from(device.properties) if device is not None else None
        found.append(_read_device(tree, address, pci_class, name))
    return tuple(sorted(found, key=lambda device: address_key(device.address)))


def _classes_that_matter(tree: Tree, addresses: Iterable[str]) -> dict[str, int]:
    """Address -> PCI class, of those that are display or accelerator devices."""
    names = filter(_ADDRESS.fullmatch, addresses)
    classes = {name: tree.parsed(f"{DEVICES_DIR}/{name}/class", integer) for name in names}
    return {
        name: pci_class
        for name, pci_class in classes.items()
        if pci_class is not None and is_display_or_accelerator(pci_class)
    }


def is_display_or_accelerator(pci_class: int) -> bool:
    """By the PCI class code, whose upper byte is the base class (PCI Code and ID Assignment)."""
    return pci_class >> 16 in (0x03, 0x12) or pci_class >> 8 == 0x0B40


def address_key(address: str) -> tuple[int, ...]:
    """Sorts addresses by domain, bus, device and function."""
    return tuple(int(part, 16) for part in re.split(r"[:.]", address))


def _list_through_udev() -> Mapping[str, Any]:
    """Address -> pyudev device; empty without a usable libudev."""
    try:
        import pyudev

        devices = pyudev.Context().list_devices(subsystem="pci")
        return {device.sys_name: device for device in devices}
    except (ImportError, OSError):
        return {}


def _read_device(tree: Tree, address: str, pci_class: int, name: str | None) -> PciDevice:
    path = f"{DEVICES_DIR}/{address}"
    vendor = _read_vendor(tree, address)
    return PciDevice(
        address=address,
        pci_class=pci_class,
        vendor=vendor,
        name=name or device_name(tree, address, vendor, tree.parsed(f"{path}/device", integer)),
        driver=tree.link_name(f"{path}/driver"),
        numa_node=_node_of(tree, path),
        bridge_node=_node_of_bridges_above(tree, address),
        local_cpus=_read_local_cpus(tree, path),
        video_memory=tree.parsed(f"{path}/mem_info_vram_total", integer),
        beside_amd_cpu=_is_beside_amd_cpu(tree, address),
        unique_id=tree.text(f"{path}/unique_id"),
    )


def _read_vendor(tree: Tree, address: str) -> int | None:
    """A device without a readable vendor is NVIDIA's if their driver serves it."""
    vendor = tree.parsed(f"{DEVICES_DIR}/{address}/vendor", integer)
    if vendor is None and tree.names(f"{NVIDIA_DIR}/{address}"):
        return NVIDIA
    return vendor


def _node_of(tree: Tree, path: str) -> int | None:
    node = tree.parsed(f"{path}/numa_node", integer)
    return node if node is not None and node >= 0 else None


def _node_of_bridges_above(tree: Tree, address: str) -> int | None:
    for bridge in bridges_above(tree.root, address):
        node = _node_of(tree, bridge)
        if node is not None:
            return node
    return None


def bridges_above(root: Path, address: str) -> Iterator[str]:
    """Directories of the devices that this one hangs below, nearest first, relative to the root."""
    # Path.resolve() raises on a loop of links, which a broken dump may hold.
    top = Path(os.path.realpath(root))
    device = Path(os.path.realpath(root / DEVICES_DIR / address))
    for directory in device.parents:
        if not directory.is_relative_to(top) or directory.name == "devices":
            return
        yield str(directory.relative_to(top))


def _read_local_cpus(tree: Tree, path: str) -> frozenset[int]:
    cpus = tree.parsed(f"{path}/local_cpulist", parse_list)
    if cpus is None:
        cpus = tree.parsed(f"{path}/local_cpus", parse_mask)
    return cpus or frozenset()


def _is_beside_amd_cpu(tree: Tree, address: str) -> bool:
    """0x1022 is AMD's vendor id for processors and chipsets, 0x1002 the one for graphics."""
    return any(tree.text(f"{path}/vendor") == "0x1022" for path in other_functions(address))


def other_functions(address: str) -> list[str]:
    """Directories of functions 1 to 7 of the same device, relative to the root."""
    device = address.rpartition(".")[0]
    return [f"{DEVICES_DIR}/{device}.{function}" for function in range(1, 8)]
