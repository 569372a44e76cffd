"""Runs inside the guest: one strategy, and what its threads read from where in one generation.

    strategy_run.py MODEL [--hold] [--company] [--inspect] [--matrices FILE] [RUN-OPTION...]

--hold: each compute thread is held on the CPU of one node while it is counted; without it the
engine's threads run where the strategy has them. --company: another engine maps the model all the
while. --inspect: the words of `inspect --json` too. --matrices: where the model file's matrices
are (weight_pages.py), to ask the kernel whether each row lies on its reader's node. Prints one
JSON document.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from kernel_view import (
    memory_of,
    node_of_cpu,
    one_cpu_per_node,
    pages_of_file,
    replica_arenas,
)
from observe_run import NUMAMIRROR, engine, inspect
from weight_pages import rows_with_their_readers

from numamirror_cli.memory.status_page import MirrorStatus, read_mirror_status

# What is printed by the shim itself, the count of rows read by their owners among it.
SHIM_SPEAKS = {"NUMAMIRROR_LOG": "1", "NUMAMIRROR_TEST_OWNERS": "1"}


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("model")
    for flag in ("--hold", "--company", "--inspect"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--matrices", type=Path)
    options, run_options = parser.parse_known_args(words)
    with tempfile.TemporaryFile("w+") as log:
        command = [
            *NUMAMIRROR,
            "run",
            "--report",
            "none",
            *run_options,
            "--",
            *engine(options.model),
        ]
        with company_of(options.model) if options.company else contextlib.nullcontext():
            seen = generate(command, log, options)
        log.seek(0)
        seen["stderr"] = log.read()
    print(json.dumps(seen))


@contextlib.contextmanager
def company_of(model: str) -> Iterator[None]:
    """An engine that has the model in memory, and keeps it."""
    with subprocess.Popen(
        engine(model), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as other:
        other.stdout.readline()
        yield
        other.stdin.close()


def generate(command: list[str], log: Any, options: argparse.Namespace) -> dict[str, Any]:
    """The first generation settles the strategy, the last one is counted; threads that are held
    have one in between to get to their places."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log, "text": True}
    environment = os.environ | SHIM_SPEAKS
    with subprocess.Popen(command, **pipes, env=environment) as launcher:

        def answer() -> Any:
            return json.loads(launcher.stdout.readline() or "null")

        def again() -> Any:
            print("again", file=launcher.stdin, flush=True)
            return answer()

        first, holder = answer(), answer()
        seen = {"first": first} | look_at(holder["pid"], again, options)
        launcher.stdin.close()
        seen["exit"] = launcher.wait()
    return seen


def look_at(pid: int, again: Callable[[], Any], options: argparse.Namespace) -> dict[str, Any]:
    at_first = rows_by_reader(pid, options)
    if options.hold:
        hold_threads(pid)
        again()
    before = counted(pid)
    last = again()
    after = counted(pid)
    local, read = (after[key] - before[key] for key in ("local", "all"))
    return {
        "last": last,
        "locality": local / read if read else None,
        "read_bytes": read,
        "copies": after["copies"],
        "state": after["state"],
        "weights": after["weights"],
        "pages": pages_of_file(pid, options.model),
        "memory": memory_of(pid, options.model),
        "rows_at_first": at_first,
        "rows": rows_by_reader(pid, options),
        "arenas": replica_arenas(pid) if options.hold else [],
        "inspect": inspect(pid) if options.inspect else None,
    }


def rows_by_reader(pid: int, options: argparse.Namespace) -> dict[str, int] | None:
    """With one thread per node, both ways of ggml to divide rows give thread i to the i-th."""
    if options.matrices is None:
        return None
    matrices = json.loads(options.matrices.read_text())
    nodes = [node_of_cpu(cpu) for cpu in one_cpu_per_node(pid)]
    return rows_with_their_readers(pid, options.model, matrices, nodes)


def hold_threads(pid: int) -> None:
    status = page_of(pid)
    for thread, cpu in zip(status.threads if status else (), one_cpu_per_node(pid), strict=False):
        os.sched_setaffinity(thread.tid, {cpu})


def counted(pid: int) -> dict[str, Any]:
    status = page_of(pid)
    if status is None:
        return {"local": 0, "all": 0, "state": None, "weights": 0, "copies": []}
    return {
        "local": sum(r.replica_bytes + r.home_bytes + r.shard_bytes for r in status.reads),
        "all": status.read_bytes,
        "state": status.state,
        "weights": status.gemm_bytes,
        "copies": [(copy.role, copy.sampled_local, copy.sampled_pages) for copy in status.copies],
    }


def page_of(pid: int) -> MirrorStatus | None:
    return read_mirror_status(pid)


if __name__ == "__main__":
    main(sys.argv[1:])
