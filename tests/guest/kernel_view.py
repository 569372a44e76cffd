"""Runs inside the guest: what the kernel says of a process's memory, without any code of ours."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

PAGE = os.sysconf("SC_PAGE_SIZE")
MOVE_PAGES = 279  # x86_64, as all guests
# How the shim asks for its arenas: huge pages, no core dump, no reserve. Nothing else here does.
ARENA_FLAGS = {"hg", "dd", "nr"}
MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ (\d+)\s*(.*)")


def pages_by_node(pid: int, ranges: Iterable[tuple[int, int]]) -> dict[str, int]:
    """Pages of (address, bytes) ranges per node, "absent" for those not in memory."""
    counts: dict[str, int] = {}
    for status in locate(pid, sorted(pages_of(ranges))):
        where = str(status) if status >= 0 else "absent"
        counts[where] = counts.get(where, 0) + 1
    return counts


def pages_of(ranges: Iterable[tuple[int, int]]) -> set[int]:
    return {
        page for start, size in ranges for page in range(start // PAGE * PAGE, start + size, PAGE)
    }


def locate(pid: int, addresses: list[int]) -> list[int]:
    """move_pages(2) without nodes: asks, moves nothing. The node of each page, or -errno."""
    count = len(addresses)
    status = (ctypes.c_int * count)()
    pages = (ctypes.c_void_p * count)(*addresses)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(MOVE_PAGES, pid, ctypes.c_ulong(count), pages, None, status, 0):
        raise OSError(ctypes.get_errno(), "move_pages")
    return list(status)


def replica_arenas(pid: int) -> list[dict[str, Any]]:
    """The shim's arenas: {"policy", "pages"}, the policy in the words of numa_maps."""
    policies = policy_by_address(pid)
    return [
        {"policy": policies[start], "pages": pages_by_node(pid, [(start, end - start)])}
        for start, end, inode, flags in mappings(pid)
        if inode == 0 and flags >= ARENA_FLAGS
    ]


def mappings(pid: int) -> Iterator[tuple[int, int, int, set[str]]]:
    """(start, end, inode, VmFlags) of each mapping (proc(5), /proc/PID/smaps)."""
    start = end = inode = 0
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if head := MAPPING.fullmatch(line):
            start, end, inode = int(head[1], 16), int(head[2], 16), int(head[3])
        elif line.startswith("VmFlags:"):
            yield start, end, inode, set(line.split()[1:])


def memory_of(pid: int, model: str) -> dict[str, int]:
    """resident: anonymous memory and the model's own; what is mapped of libraries depends on the
    page cache. huge: in anonymous huge pages. mappings: their number (proc(5), smaps)."""
    sums, of_model, mappings = {"resident": 0, "huge": 0}, False, 0
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        name, *words = line.split()
        if not name.endswith(":"):
            of_model = words[-1] == model
            mappings += 1
        elif name == ("Rss:" if of_model else "Anonymous:"):
            sums["resident"] += int(words[0]) * 1024
        elif name == "AnonHugePages:":
            sums["huge"] += int(words[0]) * 1024
    return sums | {"mappings": mappings}


def policy_by_address(pid: int) -> dict[int, str]:
    lines = Path(f"/proc/{pid}/numa_maps").read_text().splitlines()
    return {int(line.split()[0], 16): line.split()[1] for line in lines}


def anonymous_pages(pid: int) -> dict[str, dict[str, int]]:
    """Pages per node that are the process's own, by the policy of their mapping: those of weights
    with a policy of their own apart from heap, caches and stacks. Not what it has changed of files:
    the kernel counts their page cache with it."""
    found: dict[str, dict[str, int]] = {}
    for line in Path(f"/proc/{pid}/numa_maps").read_text().splitlines():
        if " anon=" not in line or " file=" in line:
            continue
        counts = found.setdefault(line.split()[1], {})
        for node, pages in re.findall(r" N(\d+)=(\d+)", line):
            counts[node] = counts.get(node, 0) + int(pages)
    return found


def pages_of_file(pid: int, path: str) -> dict[str, int]:
    """Pages per node of a file that are in the process's page tables (numa(7), numa_maps)."""
    counts: dict[str, int] = {}
    for line in Path(f"/proc/{pid}/numa_maps").read_text().splitlines():
        if f" file={path} " in line:
            for node, pages in re.findall(r" N(\d+)=(\d+)", line):
                counts[node] = counts.get(node, 0) + int(pages)
    return counts


def task_policy(pid: int) -> str:
    """The policy of what has none of its own: numa_maps shows it at the stack."""
    lines = Path(f"/proc/{pid}/numa_maps").read_text().splitlines()
    return next(line.split()[1] for line in lines if " stack" in line)


def one_cpu_per_node(pid: int) -> list[int]:
    """The lowest CPU of each node among those that the process may use, in node order."""
    lowest = {node_of_cpu(cpu): cpu for cpu in sorted(os.sched_getaffinity(pid), reverse=True)}
    return [lowest[node] for node in sorted(lowest)]


def node_of_cpu(cpu: int) -> int:
    """The node that the CPU belongs to, with or without memory (sysfs-devices-system-cpu)."""
    link = next(Path(f"/sys/devices/system/cpu/cpu{cpu}").glob("node[0-9]*"))
    return int(link.name.removeprefix("node"))
