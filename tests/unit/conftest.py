"""Fixtures that several rooms' tests share: dumps of real machines, and made-up ones."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from numamirror_cli.machine.cpulist import format_list, parse_list

REPOSITORY = Path(__file__).resolve().parents[2]

# What is shown is made for a screen of 80 columns: neither the terminal of whoever tests nor their
# taste in colours is to change it.
os.environ["COLUMNS"] = "80"
for taste in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
    os.environ.pop(taste, None)

# How long an example takes, to make or to run, says how busy the machine is. They are the same ones
# each time, so that a change is judged by what it changes; EXAMPLES=10000 tries so many new ones.
EXAMPLES = os.environ.get("EXAMPLES")
settings.register_profile(
    "untimed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=EXAMPLES is None,
    max_examples=int(EXAMPLES or 100),
)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The directory of field cases and dumps beside the repository; skips where there is none."""
    directory = REPOSITORY.parent / "shared"
    if not (directory / "topologies").is_dir():
        pytest.skip(f"no dumps of real machines: {directory} is absent")
    return directory


@pytest.fixture(scope="session")
def unpacked_dump(
    shared_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Function from a dump's name to a root that `--root` takes."""
    directory = tmp_path_factory.mktemp("dumps")

    def unpack(name: str) -> Path:
        if not (directory / name).is_dir():
            with tarfile.open(shared_dir / "topologies" / f"{name}.tar.xz") as archive:
                archive.extractall(directory, filter="data")
        return directory / name

    return unpack


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    """script(name, text, mode=0o755) -> the file."""

    def make(name: str, text: str, mode: int = 0o755) -> Path:
        path = tmp_path / name
        path.write_text(text)
        path.chmod(mode)
        return path

    return make


MakeRoot = Callable[..., Path]


@pytest.fixture
def make_root(tmp_path: Path) -> MakeRoot:
    """Function that writes a made-up machine and returns its root; see write_machine."""

    def make(nodes: Mapping[int, Mapping[str, Any]], **facts: Any) -> Path:
        root = tmp_path / "root"
        write_machine(root, nodes, **facts)
        return root

    return make


def write_machine(
    root: Path,
    nodes: Mapping[int, Mapping[str, Any]],
    *,
    distances: Sequence[Sequence[int]] | None = None,
    packages: Mapping[str, int] | None = None,
    smt_offset: int | None = None,
    status: Mapping[str, str] | None = None,
    pci: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write sys/ and proc/ of a machine.

    nodes: id -> {"cpus": "0-7", "mem_mib": 1024, "free_mib": 512}. packages: CPU list -> package
    id. smt_offset: CPU n and n + offset share a core. status: fields of /proc/self/status. pci:
    see write_pci_device.
    """
    (root / "proc/self").mkdir(parents=True)
    if status is not None:
        write(root / "proc/self/status", "".join(f"{k}:\t{v}\n" for k, v in status.items()))
    write(root / "sys/devices/system/node/online", format_list(nodes) + "\n")
    for position, (node_id, node) in enumerate(nodes.items()):
        total_mib = node.get("mem_mib", 1024)
        row = distances[position] if distances else [10 if n == node_id else 20 for n in nodes]
        directory = root / f"sys/devices/system/node/node{node_id}"
        write(directory / "cpulist", node["cpus"] + "\n")
        write(directory / "distance", " ".join(map(str, row)) + "\n")
        write(
            directory / "meminfo",
            f"Node {node_id} MemTotal: {total_mib * 1024} kB\n"
            f"Node {node_id} MemFree:  {node.get('free_mib', total_mib // 2) * 1024} kB\n",
        )
    cpus = [cpu for node in nodes.values() for cpu in parse_list(node["cpus"])]
    package_of = {c: p for text, p in (packages or {}).items() for c in parse_list(text)}
    for cpu in cpus:
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        siblings = {cpu}
        if smt_offset:
            siblings = {cpu % smt_offset, cpu % smt_offset + smt_offset} & set(cpus)
        write(topology / "core_cpus_list", format_list(siblings) + "\n")
        if packages is not None:
            write(topology / "physical_package_id", f"{package_of.get(cpu, -1)}\n")
    for device in pci:
        write_pci_device(root, **device)


def write_pci_device(
    root: Path, address: str, *, bridges: Sequence[tuple[str, int]] = (), **attributes: Any
) -> None:
    """Write one PCI device below its bridges (address, numa_node), outermost first; a `driver`
    becomes the link that the kernel makes, other attributes become files."""
    directory = root / "sys/devices" / f"pci{address[:7]}"
    for bridge, node in bridges:
        directory = directory / bridge
        write(directory / "numa_node", f"{node}\n")
        write(directory / "class", "0x060400\n")
    directory = directory / address
    directory.mkdir(parents=True)
    if driver := attributes.pop("driver", None):
        (directory / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
    attributes["class"] = attributes.pop("pci_class")
    for name, value in attributes.items():
        write(directory / name, f"{value}\n")
    link = root / "sys/bus/pci/devices" / address
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(Path("../../../..") / directory.relative_to(root))


def write(path: Path, text: str) -> None:
    """Write a file and the directories it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
