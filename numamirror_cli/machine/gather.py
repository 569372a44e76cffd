"""Collect what read_machine reads into an archive for a bug report, and nothing that names a
person, a host or a single piece of hardware.

Files are listed one by one, never whole directories: a serial number that a later kernel puts
beside them stays out. Text that is kept in part goes through a function that says which part.
"""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.errors import unwritable
from numamirror_cli.machine.allowed import read_allowed
from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.machine.names import NVIDIA_DIR, nvidia_information
from numamirror_cli.machine.pci import DEVICES_DIR, bridges_above, other_functions, read_devices
from numamirror_cli.machine.tree import Tree
from numamirror_cli.output import write_whole

NODE = "sys/devices/system/node"
CPU = "sys/devices/system/cpu"

# Copied as they are: counts, ids and masks of the hardware's kind, not of this piece of it.
WHOLE_FILES = (
    f"{NODE}/online",
    f"{NODE}/possible",
    f"{NODE}/has_*",
    f"{NODE}/node*/cpumap",
    f"{NODE}/node*/cpulist",
    f"{NODE}/node*/distance",
    f"{NODE}/node*/meminfo",
    f"{NODE}/node*/numastat",
    f"{NODE}/node*/hugepages/*/nr_hugepages",
    f"{NODE}/node*/hugepages/*/free_hugepages",
    f"{CPU}/online",
    f"{CPU}/possible",
    f"{CPU}/cpu*/topology/physical_package_id",
    f"{CPU}/cpu*/topology/core_id",
    f"{CPU}/cpu*/topology/core_cpus",
    f"{CPU}/cpu*/topology/core_cpus_list",
    f"{CPU}/cpu*/topology/thread_siblings",
    f"{CPU}/cpu*/topology/thread_siblings_list",
    f"{NVIDIA_DIR}/*/numa_status",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "proc/meminfo",
    "proc/sys/kernel/numa_balancing",
    "proc/sys/kernel/osrelease",
    "proc/sys/vm/max_map_count",
    "proc/sys/vm/overcommit_memory",
    "proc/sys/vm/zone_reclaim_mode",
)

PCI_FILES = (
    "class",
    "vendor",
    "device",
    "numa_node",
    "local_cpulist",
    "local_cpus",
    "mem_info_vram_total",
)

INSIDE = (
    "nodes: CPUs, memory, distances, huge pages, counters",
    "CPUs: packages, cores, SMT siblings",
    "display and accelerator devices: class, vendor, model, node, driver; bridges above them",
    "CPUs and memory nodes this process may use",
    "processor model, kernel release, kernel settings on NUMA and memory",
)
LEFT_OUT = (
    "serial numbers, UUIDs, MAC addresses, host and user names, mounts, "
    "command lines (but for numa=...), every device that is no display or accelerator"
)


@dataclass(frozen=True)
class Gathered:
    """What was written: number of files, size of the archive in bytes, and what is in it, in
    words."""

    file: Path
    files: int
    archive_bytes: int
    inside: tuple[str, ...] = INSIDE
    left_out: str = LEFT_OUT


def gather(root: Path, file: Path) -> Gathered:
    """Write the archive (tar, xz), whose one directory is a root that `--root` takes.

    Raises NumaMirrorError when the file cannot be written; it is then not left half-written.
    """
    members = dict(_members(Tree(root)))
    top = file.name.partition(".")[0] or "numamirror"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        for path, content in sorted(members.items()):
            _add(archive, f"{top}/{path}", content)
    try:
        write_whole(file, packed.getvalue())
    except OSError as error:
        raise unwritable(file, error) from error
    return Gathered(file, len(members), len(packed.getvalue()))


@dataclass(frozen=True)
class _Link:
    target: str


def _add(archive: tarfile.TarFile, name: str, content: bytes | _Link) -> None:
    """Without times, owners and modes, which would tell of this machine."""
    member = tarfile.TarInfo(name)
    if isinstance(content, _Link):
        member.type, member.linkname = tarfile.SYMTYPE, content.target
        archive.addfile(member)
        return
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _members(tree: Tree) -> Iterator[tuple[str, bytes | _Link]]:
    yield "CONTENTS", "\n".join(["Inside:", *INSIDE, "", "Left out:", LEFT_OUT, ""]).encode()
    for pattern in WHOLE_FILES:
        for file in tree.root.glob(pattern):
            if content := _read(file):
                yield str(file.relative_to(tree.root)), content
    yield from _partial_files(tree)
    for device in read_devices(tree):
        yield from _pci_members(tree, device.address, device.name)


def _read(file: Path) -> bytes:
    """Empty where the kernel offers a file and refuses to read it."""
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _partial_files(tree: Tree) -> Iterator[tuple[str, bytes]]:
    """Files of which only what matters here is kept, each named below with its part."""
    parts: Mapping[str, Callable[[Tree], str]] = {
        "proc/self/status": _limits,
        "proc/cpuinfo": _processor,
        "proc/cmdline": _numa_words,
    }
    for path, part in parts.items():
        if text := part(tree):
            yield path, text.encode()
    for address in tree.names(NVIDIA_DIR):
        if model := nvidia_information(tree, address).get("Model"):
            yield f"{NVIDIA_DIR}/{address}/information", f"Model: \t {model}\n".encode()


def _limits(tree: Tree) -> str:
    """From wherever read_allowed has them: a cpuset's path may hold a user's name."""
    allowed = read_allowed(tree)
    lines = []
    if allowed.cpus is not None:
        lines.append(f"Cpus_allowed_list:\t{format_list(allowed.cpus)}\n")
    if allowed.mems is not None:
        lines.append(f"Mems_allowed_list:\t{format_list(allowed.mems)}\n")
    return "".join(lines)


def _processor(tree: Tree) -> str:
    """The model's name, and whether a hypervisor is below it."""
    text = tree.text("proc/cpuinfo") or ""
    model = re.search(r"^model name\s*:.*$", text, re.MULTILINE)
    flags = re.search(r"^flags\s*:.*\bhypervisor\b", text, re.MULTILINE)
    return (f"{model[0]}\n" if model else "") + ("flags\t\t: hypervisor\n" if flags else "")


def _numa_words(tree: Tree) -> str:
    words = (tree.text("proc/cmdline") or "").split()
    kept = [word for word in words if re.fullmatch(r"numa(_balancing)?=[\w:]+", word)]
    return " ".join(kept) + "\n" if kept else ""


def _pci_members(tree: Tree, address: str, name: str) -> Iterator[tuple[str, bytes | _Link]]:
    link = f"{DEVICES_DIR}/{address}"
    device = _below_root(tree.root, link)
    if device != link:
        yield link, _Link(os.path.relpath(device, DEVICES_DIR))
    for file in PCI_FILES:
        if content := _read(tree.root / device / file):
            yield f"{device}/{file}", content
    if driver := tree.link_name(f"{link}/driver"):
        yield f"{device}/driver", _Link(f"drivers/{driver}")
    for bridge in bridges_above(tree.root, address):
        if content := _read(tree.root / bridge / "numa_node"):
            yield f"{bridge}/numa_node", content
    for function in other_functions(address):
        if content := _read(tree.root / function / "vendor"):
            yield f"{function}/vendor", content
    # As udev would have it: the replay finds the name without a hardware database.
    yield f"run/udev/data/+pci:{address}", f"E:ID_MODEL_FROM_DATABASE={name}\n".encode()


def _below_root(root: Path, path: str) -> str:
    """Where a path really leads, relative to the root; the path itself where that is outside."""
    top, real = Path(os.path.realpath(root)), Path(os.path.realpath(root / path))
    return str(real.relative_to(top)) if real.is_relative_to(top) else path
