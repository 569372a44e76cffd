"""What looking at a process costs, and whether the process feels it.

    python bench/inspect_cost.py [--gib 1,4,16] [--rounds 5]

For processes of 4-KiB pages: seconds of `numastat -p`, of an exact look (numa_maps) and of a
sampled one (move_pages), alternating; and what the target feels meanwhile: all the time it maps 64
pages, touches them and unmaps them, and books how long the page faults took, and the two calls.
Prints a table and writes bench/results/inspect.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numamirror_cli.memory.inspection import read_placement
from numamirror_cli.memory.kernel import read_numa_balancing, read_resident
from numamirror_cli.memory.maps import read_maps
from numamirror_cli.memory.sampling import sample_maps

RESULTS = Path(__file__).parent / "results/inspect.json"
GIB = 1 << 30
# Seconds of undisturbed faulting to compare with, and the least that a look is repeated for.
SPELL = 2.0

# Fills its memory, then maps, touches and unmaps small batches until told to stop.
TARGET = """
import mmap, sys, threading, time
size = int(sys.argv[1])
held = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
held.madvise(mmap.MADV_NOHUGEPAGE)
for offset in range(0, size, 4096):
    held[offset] = 1
print("up", flush=True)
stop = threading.Event()
lines = iter(sys.stdin)
for line in lines:
    faults, calls = [], []
    stop.clear()
    threading.Thread(target=lambda: (next(lines), stop.set())).start()
    while not stop.is_set():
        begun = time.perf_counter()
        batch = mmap.mmap(-1, 64 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        mapped = time.perf_counter()
        for offset in range(0, 64 * 4096, 4096):
            batch[offset] = 1
        touched = time.perf_counter()
        batch.close()
        faults.append(touched - mapped)
        calls.append(time.perf_counter() - touched + mapped - begun)
    faults.sort()
    calls.sort()
    high = len(calls) * 99 // 100
    print(len(calls), faults[high // 2], faults[high], calls[high // 2], calls[high], flush=True)
"""


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

    def faults_during(self, action: Callable[[], None]) -> dict[str, float]:
        """Median and 99th percentile of 64 page faults, and of map and unmap, in microseconds."""
        self._tell()
        begun = time.monotonic()
        while time.monotonic() - begun < SPELL:
            action()
        self._tell()
        count, *times = self._answer().split()
        names = ("faults_median_us", "faults_p99_us", "calls_median_us", "calls_p99_us")
        micros = {n: round(float(t) * 1e6, 1) for n, t in zip(names, times, strict=True)}
        return {"batches": int(count)} | micros

    def end(self) -> None:
        self.child.kill()
        self.child.wait()

    def _tell(self) -> None:
        assert self.child.stdin
        print("go", file=self.child.stdin, flush=True)

    def _answer(self) -> str:
        assert self.child.stdout
        return self.child.stdout.readline()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", default="1,4,16")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows = []
    for gib in map(int, options.gib.split(",")):
        if gib * GIB > 0.7 * available_bytes():
            print(f"{gib} GiB left out: not enough free memory", file=sys.stderr)
            continue
        rows.append(measure(gib, options.rounds))
        show(rows[-1])
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": machine(), "sizes": rows}, indent=1) + "\n")


def measure(gib: int, rounds: int) -> dict[str, Any]:
    target = Target(gib * GIB)
    pid = target.child.pid
    looks: dict[str, Callable[[], None]] = {
        "numa_maps": lambda: consume(read_placement(pid, exact=True)),
        "move_pages": lambda: consume(sample(pid)),
    }
    if numastat := shutil.which("numastat"):
        looks["numastat -p"] = lambda: consume(
            subprocess.run([numastat, "-p", str(pid)], stdout=subprocess.DEVNULL, check=True)
        )
    try:
        times: dict[str, list[float]] = {name: [] for name in looks}
        for _ in range(rounds):
            for name, look in looks.items():
                times[name].append(timed(look))
        faults = {"nothing": target.faults_during(lambda: time.sleep(0.05))}
        faults |= {name: target.faults_during(look) for name, look in looks.items()}
    finally:
        target.end()
    return {
        "gib": gib,
        "seconds": {name: spread(values) for name, values in times.items()},
        "faults": faults,
    }


def sample(pid: int) -> object:
    return sample_maps(pid, read_maps(pid), "default", read_resident(pid))


def consume(_: object) -> None:
    """The result is not wanted, the work is."""


def timed(action: Callable[[], None]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 5),
        "min": round(min(values), 5),
        "max": round(max(values), 5),
    }


def show(row: dict[str, Any]) -> None:
    print(f"{row['gib']} GiB of 4-KiB pages; the target's 64 faults, map+unmap: median, 99 % (us)")
    for name, felt in row["faults"].items():
        seconds = row["seconds"].get(name, {}).get("median")
        took = "" if seconds is None else f"{seconds * 1000:.1f} ms"
        print(
            f"  {name:<12}{took:>10}{felt['faults_median_us']:>10}{felt['faults_p99_us']:>10}"
            f"{felt['calls_median_us']:>10}{felt['calls_p99_us']:>11}{felt['batches']:>8} batches"
        )


def machine() -> dict[str, Any]:
    return {
        "kernel": platform.release(),
        "cpus": len(os.sched_getaffinity(0)),
        "numa_balancing": read_numa_balancing(),
    }


def available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    main()
