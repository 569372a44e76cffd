"""What a PCI device is called."""

from __future__ import annotations

from numamirror_cli.machine import hwdb
from numamirror_cli.machine.tree import Tree

NVIDIA_DIR = "proc/driver/nvidia/gpus"

NVIDIA = 0x10DE
AMD = 0x1002
INTEL = 0x8086

# GPU vendors, and those of the controllers that boards and virtual machines come with.
VENDORS = {
    NVIDIA: "NVIDIA",
    AMD: "AMD",
    INTEL: "Intel",
    0x1A03: "ASPEED",
    0x102B: "Matrox",
    0x1234: "QEMU",
    0x1013: "Cirrus",
    0x1AF4: "virtio",
}


def vendor_name(vendor: int | None) -> str:
    """The vendor's short name ("NVIDIA" for 0x10de), its number where this table lacks it."""
    if vendor is None:
        return "unknown vendor"
    return VENDORS.get(vendor) or f"vendor {vendor:#06x}"


def device_name(tree: Tree, address: str, vendor: int | None, device: int | None) -> str:
    """The best name there is: from udev's run-time database, the hardware database (running
    system only: a dump reads the same everywhere), NVIDIA's driver, else vendor and device id."""
    return (
        _name_known_to_udev(tree, address)
        or _name_in_hardware_database(tree, vendor, device)
        or _name_known_to_nvidia(tree, address)
        or _name_by_numbers(vendor, device)
    )


def _name_known_to_udev(tree: Tree, address: str) -> str | None:
    """From a file of udev's whose lines are "E:NAME=value" for properties."""
    properties = {}
    for line in (tree.text(f"run/udev/data/+pci:{address}") or "").splitlines():
        name, _, value = line.removeprefix("E:").partition("=")
        properties[name] = value
    return hwdb.name_from(properties)


def _name_in_hardware_database(tree: Tree, vendor: int | None, device: int | None) -> str | None:
    if not tree.live or vendor is None or device is None:
        return None
    return hwdb.pci_name(vendor, device)


def _name_known_to_nvidia(tree: Tree, address: str) -> str | None:
    return nvidia_information(tree, address).get("Model") or None


def _name_by_numbers(vendor: int | None, device: int | None) -> str:
    return vendor_name(vendor) if device is None else f"{vendor_name(vendor)} {device:#06x}"


def nvidia_information(tree: Tree, address: str) -> dict[str, str]:
    """The "Name: value" lines of the driver's file on a GPU, empty when it has none."""
    text = tree.text(f"{NVIDIA_DIR}/{address}/information") or ""
    lines = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}
