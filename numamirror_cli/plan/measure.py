"""Measures pairs of nodes with the native program numamirror-bandwidth, one after the other."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numamirror_cli
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.machine.cpulist import parse_list
from numamirror_cli.machine.model import Machine
from numamirror_cli.plan.bench_result import Cell, Spread
from numamirror_cli.plan.cores import reading_cpus
from numamirror_cli.plan.ram import available_bytes

PROGRAM = "numamirror-bandwidth"

# Read in turns, memory of this many times the caches finds almost nothing in them.
_TIMES_CACHES = 4
_LEAST_BYTES = 256 << 20
# Of what a node has available; the rest may be wanted by others meanwhile.
_MOST_SHARE = 0.5


@dataclass(frozen=True)
class Side:
    """A node as a reader or as memory. cpus: one of each physical core, allowed to us; node: its
    id; bytes: what may be taken there."""

    node: int
    cpus: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Sides:
    """Readers are nodes with CPUs, memories those with memory. bound: memory is asked for by node,
    which a machine of one node does not need."""

    readers: tuple[Side, ...]
    memories: tuple[Side, ...]
    bound: bool

    def pairs(self) -> Iterator[tuple[Side, Side]]:
        for reader in self.readers:
            for memory in self.memories:
                yield reader, memory


def find_program() -> Path:
    """The installed program, else a source tree's newest. Raises NumaMirrorError."""
    package = Path(numamirror_cli.__file__).parent.resolve()
    built = sorted(package.parent.glob(f"build/*/{PROGRAM}"), key=lambda p: -p.stat().st_mtime)
    for path in (package / "lib" / PROGRAM, *built):
        if os.access(path, os.X_OK):
            return path
    raise NumaMirrorError(
        f"{PROGRAM} was not found", hint="the package lacks its native part: reinstall numamirror"
    )


def sides_of(machine: Machine) -> Sides:
    """Who can read and what can be read. A kernel without NUMA counts as node 0."""
    sides = tuple(
        Side(node.id, reading_cpus(node), available_bytes(node)) for node in machine.nodes
    )
    if not sides:
        cpus = tuple(sorted(os.sched_getaffinity(0)))
        sides = (Side(0, cpus, _memory_available()),)
    return Sides(
        readers=tuple(side for side in sides if side.cpus),
        memories=tuple(side for side in sides if side.bytes),
        bound=len(sides) > 1,
    )


def _memory_available() -> int:
    """MemAvailable of /proc/meminfo in bytes (proc(5)); 0 when it cannot be read."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0


def cache_bytes(cpus: Sequence[int], root: Path = Path("/")) -> int:
    """The last-level caches of these CPUs together, from sysfs; 0 when it does not say."""
    caches: dict[frozenset[int], int] = {}
    for cpu in cpus:
        directory = root / f"sys/devices/system/cpu/cpu{cpu}/cache"
        for index in sorted(directory.glob("index*"), reverse=True)[:1]:
            try:
                shared = parse_list((index / "shared_cpu_list").read_text())
                size = (index / "size").read_text().strip()
                caches[shared] = int(size.rstrip("KM")) << (20 if size.endswith("M") else 10)
            except (OSError, ValueError):
                continue
    return sum(caches.values())


def bytes_for(memory: Side, caches: int) -> int:
    """How much memory to read: enough to miss the caches, within what the node can spare."""
    wanted = max(_LEAST_BYTES, _TIMES_CACHES * caches)
    return max(1 << 20, min(wanted, int(memory.bytes * _MOST_SHARE)))


def measure_pair(
    program: Path, reader: Side, memory: Side, *, bound: bool, seconds: float, root: Path
) -> Iterator[Cell]:
    """Measure one pair; yields the cell each time it knows more, the last one whole.

    seconds: for each of the three figures. A refusal ends in a cell with a problem.
    """
    size = bytes_for(memory, cache_bytes(reader.cpus, root))
    words = [str(program), "--cpus", _list(reader.cpus), "--bytes", str(size)]
    words += ["--seconds", str(seconds)]
    if memory.cpus:
        words += ["--fill-cpus", _list(memory.cpus)]
    if bound:
        words += ["--node", str(memory.node)]
    cell = Cell(reader.node, memory.node, threads=len(reader.cpus))
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        try:
            for line in child.stdout:
                cell = _extended(cell, json.loads(line))
                yield cell
            problem = child.stderr.read().strip()
        except GeneratorExit:
            child.terminate()
            raise
    if child.returncode:
        why = problem.removeprefix(f"{PROGRAM}: ") or f"{PROGRAM} ended with {child.returncode}"
        yield Cell(reader.node, memory.node, problem=why)
    elif is_elsewhere(cell):
        yield Cell(reader.node, memory.node, problem=_elsewhere(cell))


def is_elsewhere(cell: Cell) -> bool:
    """The memory that was read did not lie where it was asked for: the figures mean nothing."""
    return cell.sampled > 0 and cell.sampled_there < 0.95 * cell.sampled


def _elsewhere(cell: Cell) -> str:
    where = f"{cell.sampled_there} of {cell.sampled} sampled pages on node {cell.memory}"
    return f"only {where}: no room there, or mbind is refused"


def _extended(cell: Cell, said: dict[str, Any]) -> Cell:
    """The cell with what one line of the program adds."""
    known = {name: getattr(cell, name) for name in cell.__dataclass_fields__}
    what = said["what"]
    if what == "memory":
        known |= {
            "bytes": said["bytes"],
            "huge_bytes": said["huge_bytes"],
            "sampled": said["sampled_pages"],
            "sampled_there": said["sampled_there"],
        }
    else:
        known[what] = Spread(said["low"], said["median"], said["high"])
    return Cell(**known)


def _list(cpus: Sequence[int]) -> str:
    return ",".join(map(str, cpus))
