"""On which nodes a process's threads run, and where they may."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.machine.cpulist import format_list, parse_list
from numamirror_cli.memory.process import reading

# Fields of /proc/PID/task/TID/stat after the name, counted from 0 (proc(5): state is field 3).
_STATE, _PROCESSOR = 0, 36


@dataclass(frozen=True)
class Threads:
    """Threads per node, in id order.

    running: all threads, by the CPU on which each runs or ran last; busy: those of them that were
    running or runnable at the moment. allowed: the CPUs where the process's threads may run.
    unplaced: threads on CPUs that belong to no node.
    """

    running: Mapping[int, int]
    busy: Mapping[int, int]
    allowed: frozenset[int]
    unplaced: int = 0

    @property
    def allowed_cpus(self) -> str:
        """In the kernel's list spelling."""
        return format_list(self.allowed)

    @property
    def nodes(self) -> frozenset[int]:
        """Nodes that count for reads: of the busy threads, or of all when none is busy."""
        return frozenset(self.busy or self.running)


def read_threads(pid: int, node_of_cpu: Mapping[int, int], root: Path = Path("/")) -> Threads:
    """Look at every thread of a process once.

    Threads that end meanwhile are left out. Raises NumaMirrorError when the process is gone.
    """
    with reading(pid, "task", root) as directory:
        tasks = [path for path in directory.iterdir() if path.name.isdecimal()]
    running: Counter[int] = Counter()
    busy: Counter[int] = Counter()
    allowed: set[int] = set()
    unplaced = 0
    for task in tasks:
        seen = _read_thread(task)
        if seen is None:
            continue
        state, cpu = seen
        allowed |= _allowed_cpus(task)
        if cpu not in node_of_cpu:
            unplaced += 1
            continue
        running[node_of_cpu[cpu]] += 1
        if state == "R":
            busy[node_of_cpu[cpu]] += 1
    return Threads(_ordered(running), _ordered(busy), frozenset(allowed), unplaced)


def _read_thread(task: Path) -> tuple[str, int] | None:
    """State letter and CPU of a thread; None when it has ended or its line makes no sense."""
    try:
        fields = (task / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return fields[_STATE], int(fields[_PROCESSOR])
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


def _ordered(counts: Counter[int]) -> dict[int, int]:
    return dict(sorted(counts.items()))
