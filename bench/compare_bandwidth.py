"""Compares `numamirror-bandwidth` with public programs that measure the same, where they are.

    python bench/compare_bandwidth.py [ROUNDS]

sysbench (memory, read) and likwid-bench (load, load_avx); Debian and Ubuntu have both as packages.
Each round runs every program once, so that a machine that gets slower gets slower for all. Printed
are the best of each, since other load only ever takes away, and its ratio to ours.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.launch.host import read_host
from numamirror_cli.plan.measure import find_program

BYTES = 1 << 30
SECONDS = 2


@dataclass(frozen=True)
class Program:
    """A way to measure GB/s (10^9 bytes) that some threads read from main memory."""

    name: str
    rate: Callable[[Sequence[int]], float]


def ours(cpus: Sequence[int]) -> float:
    words = [str(find_program()), "--cpus", ",".join(map(str, cpus))]
    said = output([*words, "--bytes", str(BYTES), "--seconds", str(SECONDS)])
    lines = [json.loads(line) for line in said.splitlines()]
    rate: float = next(line for line in lines if line["what"] == "all")["high"]
    return rate


def sysbench(cpus: Sequence[int]) -> float:
    """Each thread reads a block of its own, in words of 8 bytes; its MiB are 2^20 bytes."""
    said = output(
        [
            "sysbench",
            "memory",
            f"--memory-block-size={BYTES // len(cpus)}",
            "--memory-total-size=100T",
            "--memory-oper=read",
            "--memory-scope=local",
            f"--threads={len(cpus)}",
            f"--time={SECONDS}",
            "run",
        ],
        cpus,
    )
    return found(r"\(([\d.]+) MiB/sec\)", said) * (1 << 20) / 1e9


def likwid(kernel: str) -> Callable[[Sequence[int]], float]:
    def rate(cpus: Sequence[int]) -> float:
        group = f"N:{BYTES // 1_000_000}MB:{len(cpus)}"
        said = output(["likwid-bench", "-t", kernel, "-w", group, "-s", str(SECONDS)], cpus)
        return found(r"MByte/s:\s+([\d.]+)", said) / 1e3

    return rate


def output(command: Sequence[str], cpus: Sequence[int] = ()) -> str:
    pinned = ["taskset", "-c", ",".join(map(str, cpus))] if cpus else []
    return subprocess.run([*pinned, *command], check=True, text=True, capture_output=True).stdout


def found(pattern: str, text: str) -> float:
    match = re.search(pattern, text)
    if match is None:
        raise SystemExit(f"no figure in:\n{text}")
    return float(match[1])


def there() -> list[Program]:
    programs = [Program("numamirror-bandwidth", ours)]
    if shutil.which("sysbench"):
        programs.append(Program("sysbench memory", sysbench))
    if shutil.which("likwid-bench"):
        programs.append(Program("likwid-bench load", likwid("load")))
        if "avx" in Path("/proc/cpuinfo").read_text():
            programs.append(Program("likwid-bench load_avx", likwid("load_avx")))
    return programs


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    programs = there()
    if len(programs) == 1:
        raise SystemExit("neither sysbench nor likwid-bench is installed")
    host = read_host()
    print(f"kernel {host.kernel}, numa_balancing {host.numa_balancing}, load {os.getloadavg()[0]}")
    everything = sorted(os.sched_getaffinity(0))
    for cpus in (everything[:1], everything):
        rates: dict[str, list[float]] = {program.name: [] for program in programs}
        for _ in range(rounds):
            for program in programs:
                rates[program.name].append(program.rate(cpus))
        first = max(rates[programs[0].name])
        for name, figures in rates.items():
            best = max(figures)
            spread = ", ".join(f"{figure:.1f}" for figure in sorted(figures))
            print(
                f"{len(cpus)} threads  {name:22} {best:6.1f} GB/s  x {best / first:.2f}  ({spread})"
            )


if __name__ == "__main__":
    try:
        main()
    except NumaMirrorError as error:
        sys.exit(f"{error.message}: {error.hint}")
