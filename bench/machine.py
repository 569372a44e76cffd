"""On what was measured: printed beside the figures, since they mean nothing without."""

from __future__ import annotations

import os
import platform
import resource
import time
from pathlib import Path
from typing import Any

from numamirror_cli import __version__
from numamirror_cli.memory.kernel import read_numa_balancing

MEMINFO, STAT = Path("/proc/meminfo"), Path("/proc/stat")


def describe() -> dict[str, Any]:
    """Facts about machine and kernel; load is that of the minute before."""
    return {
        "cpu": cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(kib("MemTotal") / 2**20, 1),
        "nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))),
        "kernel": platform.release(),
        "virtual": "hypervisor" in Path("/proc/cpuinfo").read_text().split(),
        "numa_balancing": read_numa_balancing(),
        "huge_pages": huge_page_mode(),
        "python": platform.python_version(),
        "numamirror": __version__,
        "load": round(os.getloadavg()[0], 1),
    }


class OtherPrograms:
    """How many CPUs all other programs had, on average, from its creation on: what a load average
    cannot tell, in which this program is counted as well."""

    def __init__(self) -> None:
        self._begun, self._before = time.monotonic(), others_seconds()

    def cpus(self) -> float:
        return round(
            max(0.0, others_seconds() - self._before) / (time.monotonic() - self._begun), 2
        )


def others_seconds() -> float:
    """CPU seconds of everything but this process and those that it has waited for; what a
    hypervisor took away counts too (proc(5): user, nice, system, ..., irq, softirq, steal)."""
    ticks = [int(word) for word in STAT.read_text().split("\n", 1)[0].split()[1:9]]
    busy = sum(ticks) - ticks[3] - ticks[4]  # idle, and waiting for a disk
    ours = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return busy / os.sysconf("SC_CLK_TCK") - sum(use.ru_utime + use.ru_stime for use in ours)


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def huge_page_mode() -> str:
    """The word in brackets of transparent_hugepage/enabled."""
    try:
        text = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    except OSError:
        return "unknown"
    return text.partition("[")[2].partition("]")[0]


def available_bytes() -> int:
    return kib("MemAvailable") * 1024


def kib(key: str) -> int:
    for line in MEMINFO.read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    return 0
