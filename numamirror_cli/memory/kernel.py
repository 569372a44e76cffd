"""Settings of the kernel, and of the process's cpuset, that decide where pages go or move."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.machine.cpulist import parse_list
from numamirror_cli.memory.process import proc_dir

# What to do about automatic balancing; it is shown, never done by us.
BALANCING_OFF = "sudo sysctl kernel.numa_balancing=0"


@dataclass(frozen=True)
class Cpuset:
    """path: of the cpuset cgroup, "" when unknown. mems: nodes where memory may be taken, None
    when unknown."""

    path: str
    mems: frozenset[int] | None


@dataclass(frozen=True)
class Unmovable:
    """Bytes of a process: locked against swapping (mlock), and pinned, as for a device's DMA."""

    locked: int = 0
    pinned: int = 0


def read_numa_balancing(root: Path = Path("/")) -> int | None:
    """kernel.numa_balancing: 0 off, 1 on, 2 tiering; None where the kernel has no such setting."""
    try:
        return int((root / "proc/sys/kernel/numa_balancing").read_text())
    except (OSError, ValueError):
        return None


def read_cpuset(pid: int, root: Path = Path("/")) -> Cpuset:
    """The cpuset of a process, as far as it may be read."""
    return Cpuset(_read(proc_dir(pid, root) / "cpuset").strip(), _allowed_mems(pid, root))


def read_resident(pid: int, root: Path = Path("/")) -> int:
    """Resident bytes of a process, hugetlbfs pages included (proc(5), status); 0 if unknown."""
    amounts = _status_amounts(pid, root)
    return amounts.get("VmRSS", 0) + amounts.get("HugetlbPages", 0)


def read_unmovable(pid: int, root: Path = Path("/")) -> Unmovable:
    """What the process keeps from being swapped or moved (proc(5), status); 0 where unknown."""
    amounts = _status_amounts(pid, root)
    return Unmovable(locked=amounts.get("VmLck", 0), pinned=amounts.get("VmPin", 0))


def _status_amounts(pid: int, root: Path) -> dict[str, int]:
    """The amounts in /proc/PID/status, in bytes, by their names."""
    amounts: dict[str, int] = {}
    for line in _read(proc_dir(pid, root) / "status").splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if words[1:] == ["kB"] and words[0].isdecimal():
            amounts[name] = int(words[0]) * 1024
    return amounts


def _allowed_mems(pid: int, root: Path) -> frozenset[int] | None:
    for line in _read(proc_dir(pid, root) / "status").splitlines():
        name, _, value = line.partition(":")
        if name == "Mems_allowed_list":
            try:
                return parse_list(value)
            except ValueError:
                return None
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
