"""How long the commands take, and how long `run` keeps a program waiting before it starts it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench import programs
from bench.figures import ALONE, DIFFERENCE, Figure, alternate, compared

OURS = str(Path(sys.executable).with_name("numamirror"))
NUMACTL, LSTOPO, PYTHON = "numactl", "lstopo-no-graphics", sys.executable


def measure(quick: bool) -> list[Figure]:
    rounds = 5 if quick else 31
    figures = []
    for what, command, goal, others in (
        ("numamirror --version", ["--version"], "<= 60", [[PYTHON, "-c", "pass"]]),
        ("numamirror topology", ["topology"], "<= 150", [[NUMACTL, "-H"], [LSTOPO]]),
    ):
        figures += against(what, [OURS, *command], goal, others, rounds)
    return figures + delays(rounds)


def delays(rounds: int) -> list[Figure]:
    """Until a program's main is reached: under `run` with a shim and without, under numactl."""
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
        rounds,
        {name: partial(until_main, [*before, moment]) for name, before in there.items()},
    )
    plain = values.pop("as it is")
    return [
        compared(
            f"until main, {name}",
            "ms",
            times,
            "started as it is",
            plain,
            DIFFERENCE,
            "<= 150" if name.startswith("run") else "",
        )
        for name, times in values.items()
    ]


def against(
    what: str,
    command: Sequence[str],
    goal: str,
    others: Sequence[Sequence[str]],
    rounds: int,
) -> list[Figure]:
    """The goal is one for our own time; the others say what a user is used to."""
    ways = {" ".join(words): words for words in [command, *filter(runs, others)]}
    values = alternate(rounds, {name: partial(until_end, words) for name, words in ways.items()})
    ours, *names = ways
    return [
        compared(what, "ms", values[ours], Path(name).name, values[name], ALONE, goal)
        for name in names
    ]


def runs(command: Sequence[str]) -> bool:
    return shutil.which(command[0]) is not None


def until_end(command: Sequence[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return 1000 * (time.perf_counter() - begun)


def until_main(command: Sequence[str]) -> float:
    environ = os.environ | {"NUMAMIRROR_SHIM": str(programs.shim())}
    begun = time.monotonic()
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environ)
    return 1000 * (float(done.stdout) - begun)
