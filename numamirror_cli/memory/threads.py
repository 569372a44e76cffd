"""On which nodes a process's threads run, and where they may."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.machine.cpulist import format_list, parse_list
from numamirror_cli.memory.process import reading

# Fields of /proc/PID/task/TID/stat after the name, counted from 0 (proc(5): state is field 3).
_STATE, _UTIME, _STIME, _PROCESSOR = 0, 11, 12, 36
# A thread with less than this share of the busiest one's CPU time only waits and manages.
_COMPUTING = 0.1


@dataclass(frozen=True)
class Threads:
    """Threads per node, in id order.

    running: all threads, by the CPU on which each runs or ran last; busy: those of them that were
    running or runnable at the moment; computing: those that used most of the CPU time so far.
    allowed: the CPUs, of those that are there, where the process's threads may run, and
    allowed_nodes, to which those belong. unplaced: threads on CPUs of no node.
    """

    running: Mapping[int, int]
    busy: Mapping[int, int]
    computing: Mapping[int, int]
    allowed: frozenset[int]
    allowed_nodes: frozenset[int] = frozenset()
    unplaced: int = 0

    @property
    def allowed_cpus(self) -> str:
        """In the kernel's list spelling."""
        return format_list(self.allowed)

    @property
    def nodes(self) -> frozenset[int]:
        """The nodes from which memory is read: those of the threads that compute."""
        return frozenset(self.computing)


@dataclass(frozen=True)
class _Thread:
    state: str
    cpu: int
    ticks: int
    allowed: frozenset[int]


def read_threads(pid: int, node_of_cpu: Mapping[int, int], root: Path = Path("/")) -> Threads:
    """Look at every thread of a process once.

    Threads that end meanwhile are left out. Raises NumaMirrorError when the process is gone.
    """
    with reading(pid, "task", root) as directory:
        tasks = [path for path in directory.iterdir() if path.name.isdecimal()]
    threads = [thread for thread in map(_read_thread, tasks) if thread is not None]
    placed = [thread for thread in threads if thread.cpu in node_of_cpu]
    most = max((thread.ticks for thread in threads), default=0)

    may = frozenset[int]().union(*(thread.allowed for thread in threads))
    allowed = _that_are_there(may, node_of_cpu)

    def count(chosen: Iterable[_Thread]) -> dict[int, int]:
        return dict(sorted(Counter(node_of_cpu[thread.cpu] for thread in chosen).items()))

    return Threads(
        running=count(placed),
        busy=count(thread for thread in placed if thread.state == "R"),
        computing=count(thread for thread in placed if thread.ticks >= _COMPUTING * most),
        allowed=allowed,
        allowed_nodes=frozenset(node_of_cpu[cpu] for cpu in allowed if cpu in node_of_cpu),
        unplaced=len(threads) - len(placed),
    )


def _that_are_there(cpus: frozenset[int], node_of_cpu: Mapping[int, int]) -> frozenset[int]:
    """Without the slots in which no CPU is: the kernel lists them too (Cpus_allowed_list)."""
    return cpus & node_of_cpu.keys() if node_of_cpu else cpus


def _read_thread(task: Path) -> _Thread | None:
    """One thread; None when it has ended or its line makes no sense."""
    try:
        fields = (task / "stat").read_text(errors="replace").rpartition(")")[2].split()
        ticks = int(fields[_UTIME]) + int(fields[_STIME])
        return _Thread(fields[_STATE], int(fields[_PROCESSOR]), ticks, _allowed_cpus(task))
    except (OSError, IndexError, ValueError):
        return None


def _allowed_cpus(task: Path) -> frozenset[int]:
    try:
        for line in (task / "status").read_text(errors="replace").splitlines():
            if line.startswith("Cpus_allowed_list:"):
                return parse_list(line.partition(":")[2])
    except (OSError, ValueError):
        pass
    return frozenset()
