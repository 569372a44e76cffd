"""How long the commands take, and how long `run` keeps a program waiting before it starts it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench import programs
from bench.figures import ALONE, DIFFERENCE, Figure, alternate, compared

OURS = str(Path(sys.executable).with_name("numamirror"))
NUMACTL, LSTOPO, PYTHON = "numactl", "lstopo-no-graphics", sys.executable


def measure(quick: bool) -> list[Figure]:
    """Each first on the clock, which other programs hold up, then in CPU time."""
    rounds = 5 if quick else 31
    version, topology = [OURS, "--version"], [OURS, "topology"]
    return [
        *commands("numamirror --version", version, "<= 60", [[PYTHON, "-c", "pass"]], rounds),
        *commands("numamirror topology", topology, "<= 150", [[NUMACTL, "-H"], [LSTOPO]], rounds),
        *delays("until main", rounds, until_main),
        *delays("until main, CPU time", rounds, processor_time),
    ]


def commands(
    what: str, ours: Sequence[str], goal: str, others: Sequence[Sequence[str]], rounds: int
) -> list[Figure]:
    """The goal is one for our own time; the others say what a user is used to."""
    figures = []
    for name, timed in ((what, until_end), (f"{what}, CPU time", processor_time)):
        ways = {" ".join(words): words for words in [ours, *filter(runs, others)]}
        values = alternate(rounds, {way: partial(timed, words) for way, words in ways.items()})
        own, *rest = values
        figures += [
            compared(name, "ms", values[own], Path(way).name, values[way], ALONE, goal)
            for way in rest
        ]
    return figures


def delays(what: str, rounds: int, timed: Callable[[Sequence[str]], float]) -> list[Figure]:
    """Of a program under `run` with a shim and without, and under numactl, against its own."""
    run = [OURS, "run", "--report", "none"]
    ways = {
        "run": [*run, "--strategy", "prefer", "--"],
        "run, shim preloaded": [*run, "--rehearse", "2", "--"],
        "numactl": [NUMACTL, "--preferred", "0"],
        "as it is": [],
    }
    moment = str(programs.build() / "moment")
    there = {name: before for name, before in ways.items() if not before or runs(before)}
    values = alternate(
        rounds, {name: partial(timed, [*before, moment]) for name, before in there.items()}
    )
    plain = values.pop("as it is")
    goals = {name: "<= 150" if name.startswith("run") else "" for name in values}
    return [
        compared(f"{what}, {name}", "ms", times, "started as it is", plain, DIFFERENCE, goals[name])
        for name, times in values.items()
    ]


def runs(command: Sequence[str]) -> bool:
    return shutil.which(command[0]) is not None


def until_end(command: Sequence[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return 1000 * (time.perf_counter() - begun)


def until_main(command: Sequence[str]) -> float:
    begun = time.monotonic()
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=with_shim())
    return 1000 * (float(done.stdout) - begun)


def processor_time(command: Sequence[str]) -> float:
    """Of the command and all that it waited for, in user and kernel mode."""
    quiet = subprocess.DEVNULL
    child = subprocess.Popen(command, stdout=quiet, stderr=quiet, env=with_shim())
    _, _, used = os.wait4(child.pid, 0)
    child.returncode = 0  # taken from it by wait4
    return 1000 * (used.ru_utime + used.ru_stime)


def with_shim() -> dict[str, str]:
    return os.environ | {"NUMAMIRROR_SHIM": str(programs.shim())}
