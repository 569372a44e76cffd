"""Which PCI devices are GPUs that an engine may use, on which node they are, and who votes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numamirror_cli.machine.model import Gpu, Node
from numamirror_cli.machine.names import (
    AMD,
    INTEL,
    NVIDIA,
    NVIDIA_DIR,
    VENDORS,
    nvidia_information,
)
from numamirror_cli.machine.pci import PciDevice, read_devices
from numamirror_cli.machine.tree import Tree, decimal
from numamirror_cli.machine.visible import Visibility, read_visibility

# VGA compatible, 3D, other display, processing accelerator (AMD Instinct).
GPU_CLASSES = (0x0300, 0x0302, 0x0380, 0x1200)

# amdgpu reports what the firmware set aside of main memory as if it were the device's own; a card
# for inference has more.
LEAST_VIDEO_MEMORY = 1 << 30
# Why a device does not vote that otherwise would.
NODE_UNKNOWN = "node unknown"


def read_gpus(
    tree: Tree, nodes: Sequence[Node], voting_nodes: frozenset[int], environ: Mapping[str, str]
) -> tuple[tuple[Gpu, ...], tuple[str, ...]]:
    """The display and accelerator devices in order of address, and notes on the environment.

    voting_nodes: those for which a GPU's vote can count. A GPU votes if an engine started in this
    environment would use it and its node is one of these.
    """
    devices = read_devices(tree)
    candidates = [device for device in devices if _why_no_gpu(device) is None]
    visibility = read_visibility(candidates, _uuids(tree, candidates), environ)
    gpus = [_judge(tree, device, nodes, voting_nodes, visibility) for device in devices]
    return tuple(gpus), visibility.notes


def memory_nodes_of_gpus(tree: Tree) -> dict[int, str]:
    """Node id -> address of the GPU whose own memory the node is, as NVIDIA's driver tells."""
    found = {}
    for address in tree.names(NVIDIA_DIR):
        for line in (tree.text(f"{NVIDIA_DIR}/{address}/numa_status") or "").splitlines():
            name, _, value = line.partition(":")
            node = decimal(value)
            if name == "Node" and node is not None:
                found[node] = address
    return found


def _judge(
    tree: Tree,
    device: PciDevice,
    nodes: Sequence[Node],
    voting_nodes: frozenset[int],
    visibility: Visibility,
) -> Gpu:
    node, source = _find_node(tree, device, nodes)
    why_not = _why_no_gpu(device)
    if why_not is None and device.address in visibility.hidden:
        why_not = f"hidden by {visibility.hidden[device.address]}"
    if why_not is None and node is None:
        why_not = NODE_UNKNOWN
    if why_not is None and node not in voting_nodes:
        why_not = f"node {node} gets no copy"
    return Gpu(
        address=device.address,
        pci_class=device.pci_class,
        vendor=device.vendor,
        name=device.name,
        node=node,
        votes=why_not is None,
        reason=f"votes for node {node}{source}" if why_not is None else f"{why_not}: does not vote",
    )


def _why_no_gpu(device: PciDevice) -> str | None:
    """Why no engine would use the device, None when one would."""
    if device.pci_class >> 8 not in GPU_CLASSES:
        return f"class {device.pci_class >> 8:#06x} is no GPU"
    if device.vendor is None:
        return "vendor unknown"
    if device.vendor not in (NVIDIA, AMD, INTEL):
        return f"board controller ({VENDORS.get(device.vendor, 'vendor')} {device.vendor:#06x})"
    if device.vendor == INTEL and device.bus == 0:
        return "part of the processor (Intel on bus 0)"
    if device.vendor == AMD and _has_no_memory_of_its_own(device):
        return "without memory of its own"
    if device.driver == "vfio-pci":
        return "passed through (vfio-pci)"
    return None


def _has_no_memory_of_its_own(device: PciDevice) -> bool:
    """AMD's graphics inside a processor, known by their neighbours or by how little they have."""
    if device.video_memory is not None and device.video_memory < LEAST_VIDEO_MEMORY:
        return True
    return device.beside_amd_cpu


def _find_node(tree: Tree, device: PciDevice, nodes: Sequence[Node]) -> tuple[int | None, str]:
    """The device's node, and where that is known from ("" for its own numa_node)."""
    ids = {node.id for node in nodes}
    if device.numa_node in ids:
        return device.numa_node, ""
    if device.numa_node is not None and ids:
        path = f"sys/bus/pci/devices/{device.address}/numa_node"
        tree.note(path, f"there is no node {device.numa_node}")
    if device.bridge_node in ids:
        return device.bridge_node, ", node taken from the bridge above"
    near = [node.id for node in nodes if device.local_cpus and device.local_cpus <= node.cpus]
    if near:
        return near[0], ", node taken from its local CPUs"
    return None, ""


def _uuids(tree: Tree, devices: Sequence[PciDevice]) -> dict[str, str]:
    """Address -> UUID as the visible-devices variables spell it: from NVIDIA's driver, or from
    amdgpu's unique_id."""
    uuids = {}
    for device in devices:
        if device.vendor == NVIDIA:
            uuids[device.address] = nvidia_information(tree, device.address).get("GPU UUID", "")
        elif device.unique_id:
            uuids[device.address] = f"GPU-{device.unique_id.removeprefix('0x')}"
    return {address: uuid for address, uuid in uuids.items() if uuid.upper().startswith("GPU-")}
