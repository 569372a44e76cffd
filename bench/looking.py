"""What looking at a process costs, and whether the process feels it.

For processes of 4-KiB pages: an exact look (numa_maps) and a sampled one (move_pages) against
`numastat -p`, alternating; and what the target feels meanwhile: all the time it maps 64 pages,
touches them and unmaps them, and books how long the page faults took, and the two calls. It also
counts how often one of these waited, by its own voluntary context switches: a fault that is held up
sleeps, whatever else the machine does, while one that only took long may have lost its CPU.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

from bench import machine
from bench.figures import DIFFERENCE, RATIO, Figure, alone, alternate, compared
from numamirror_cli.memory.inspection import read_placement
from numamirror_cli.memory.kernel import read_resident
from numamirror_cli.memory.maps import read_maps
from numamirror_cli.memory.sampling import sample_maps

GIB = 1 << 30
SIZES = (1, 4, 16)
# Seconds of faulting to look at, and the least that a look is repeated for.
SPELL = 2.0

# Fills its memory, then maps, touches and unmaps small batches until told to stop. Memory is
# written as a whole: page by page from Python would take a minute for the largest.
TARGET = """
import mmap, sys, threading, time
from resource import RUSAGE_THREAD, getrusage
size, part = int(sys.argv[1]), 1 << 26
held = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
held.madvise(mmap.MADV_NOHUGEPAGE)
ones = bytes([1]) * part
for offset in range(0, size, part):
    held[offset:offset + part] = ones
print("up", flush=True)
stop = threading.Event()
lines = iter(sys.stdin)
for line in lines:
    faults, calls, held = [], [], [0, 0]
    stop.clear()
    threading.Thread(target=lambda: (next(lines), stop.set())).start()
    while not stop.is_set():
        waits = [getrusage(RUSAGE_THREAD).ru_nvcsw]
        begun = time.perf_counter()
        batch = mmap.mmap(-1, 64 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        mapped = time.perf_counter()
        waits.append(getrusage(RUSAGE_THREAD).ru_nvcsw)
        before = time.perf_counter()
        for offset in range(0, 64 * 4096, 4096):
            batch[offset] = 1
        touched = time.perf_counter()
        waits.append(getrusage(RUSAGE_THREAD).ru_nvcsw)
        after = time.perf_counter()
        batch.close()
        ended = time.perf_counter()
        waits.append(getrusage(RUSAGE_THREAD).ru_nvcsw)
        faults.append(touched - before)
        calls.append(ended - after + mapped - begun)
        held[0] += waits[2] > waits[1]
        held[1] += waits[1] > waits[0] or waits[3] > waits[2]
    faults.sort()
    calls.sort()
    high = len(calls) * 99 // 100
    times = [faults[high // 2], faults[high], calls[high // 2], calls[high]]
    print(*(1e6 * t for t in times), *(1e3 * n / len(calls) for n in held), flush=True)
"""
FELT = ("64 page faults, median", "64 page faults, 99 %", "mmap + munmap, median", "..., 99 %")
HELD_UP = ("of 1000 times 64 page faults, waited", "of 1000 times mmap + munmap, waited")


class Target:
    """A process of that many bytes, and its page faults while something else goes on."""

    def __init__(self, size: int) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-c", TARGET, str(size)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def felt_during(self, action: Callable[[], object]) -> list[float]:
        """Microseconds, in the order of FELT, then of 1000 batches those of HELD_UP."""
        self._tell()
        begun = time.monotonic()
        while time.monotonic() - begun < SPELL:
            action()
        self._tell()
        return [float(word) for word in self._answer().split()]

    def end(self) -> None:
        self.child.kill()
        self.child.wait()

    def _tell(self) -> None:
        assert self.child.stdin
        print("go", file=self.child.stdin, flush=True)

    def _answer(self) -> str:
        assert self.child.stdout
        return self.child.stdout.readline()


@contextlib.contextmanager
def target_of(size: int) -> Iterator[Target]:
    target = Target(size)
    try:
        yield target
    finally:
        target.end()


def measure(quick: bool) -> list[Figure]:
    figures: list[Figure] = []
    for gib in SIZES[:1] if quick else SIZES:
        if gib * GIB > 0.85 * machine.available_bytes():
            print(f"{gib} GiB left out: not enough free memory", file=sys.stderr)
            continue
        with target_of(gib * GIB) as target:
            figures += durations(gib, target, 3 if quick else 9)
            figures += disturbances(gib, target)
    return figures


def looks(pid: int) -> dict[str, Callable[[], object]]:
    """Ways to look; numastat where there is one."""
    ways: dict[str, Callable[[], object]] = {
        "exact look": lambda: read_placement(pid, exact=True),
        "sampled look": lambda: sample_maps(pid, read_maps(pid), "default", read_resident(pid)),
    }
    if numastat := shutil.which("numastat"):
        command = [numastat, "-p", str(pid)]
        ways["numastat -p"] = lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return ways


def durations(gib: int, target: Target, rounds: int) -> list[Figure]:
    ways = looks(target.child.pid)
    values = alternate(rounds, {name: partial(milliseconds, look) for name, look in ways.items()})
    theirs = values.pop("numastat -p", None)
    return [
        alone(f"{gib} GiB, {name}", "ms", ours)
        if theirs is None
        else compared(f"{gib} GiB, {name}", "ms", ours, "numastat -p", theirs, RATIO)
        for name, ours in values.items()
    ]


def disturbances(gib: int, target: Target) -> list[Figure]:
    """What the target feels while it is looked at without a pause, against when it is not."""
    alone_felt = target.felt_during(lambda: time.sleep(0.05))
    figures = []
    for name, look in looks(target.child.pid).items():
        felt = target.felt_during(look)
        for what, ours, other in zip((*FELT, *HELD_UP), felt, alone_felt, strict=True):
            text = f"{gib} GiB, the target during {name}: {what}"
            unit, kind = ("us", RATIO) if what in FELT else ("batches", DIFFERENCE)
            figures.append(compared(text, unit, [ours], "not looked at", [other], kind))
    return figures


def milliseconds(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - begun)
