"""How busy the CPUs are with other things: run queues, and what a hypervisor takes away."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

# Less than this between two looks at /proc/stat, and a share of it is noise.
_ENOUGH_TICKS = 8


@dataclass(frozen=True)
class CpuTimes:
    """Ticks of all CPUs since boot (proc(5), /proc/stat): of all kinds, and stolen ones."""

    all: int
    stolen: int


@dataclass(frozen=True)
class Busyness:
    """cpus: on line. load: average number of tasks that ran or waited in the last minute.
    waited: share of the last 10 s in which some task waited for a CPU (pressure stall
    information). stolen: share of the CPUs' time that the hypervisor gave to others meanwhile.
    None: not known."""

    cpus: int
    load: float | None
    waited: float | None
    stolen: float | None


def read_cpu_times(root: Path = Path("/")) -> CpuTimes | None:
    """A first look, for `read_busyness`; None where the file is not as expected."""
    fields = re.match(r"cpu +([\d ]+)\n", _read(root / "proc/stat"))
    ticks = [int(word) for word in fields[1].split()] if fields else []
    # The eighth is steal; those after it are counted in the first two already.
    return CpuTimes(sum(ticks[:8]), ticks[7]) if len(ticks) >= 8 else None


def read_busyness(since: CpuTimes | None, root: Path = Path("/")) -> Busyness:
    """What the machine does now. since: an earlier look at the same machine."""
    cpus = len(re.findall(r"^cpu\d+ ", _read(root / "proc/stat"), re.MULTILINE))
    load = re.match(r"(\d+\.\d+) ", _read(root / "proc/loadavg"))
    waited = re.match(r"some avg10=(\d+\.\d+)", _read(root / "proc/pressure/cpu"))
    return Busyness(
        cpus=cpus or os.cpu_count() or 1,
        load=float(load[1]) if load else None,
        waited=float(waited[1]) / 100 if waited else None,
        stolen=_stolen(since, read_cpu_times(root)),
    )


def _stolen(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    if before is None or after is None or after.all - before.all < _ENOUGH_TICKS:
        return None
    return (after.stolen - before.stolen) / (after.all - before.all)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
