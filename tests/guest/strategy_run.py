"""Runs inside the guest: one strategy, and what its threads read from where in one generation.

    strategy_run.py MODEL hold|free [RUN-OPTION...]

hold: each compute thread is held on the CPU of one node while it is counted; free: the engine's
threads run where the strategy has them. Prints one JSON document.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from kernel_view import one_cpu_per_node
from observe_run import NUMAMIRROR, engine

from numamirror_cli.memory.status_page import MirrorStatus, read_mirror_status

# What is printed by the shim itself, the count of rows read by their owners among it.
SHIM_SPEAKS = {"NUMAMIRROR_LOG": "1", "NUMAMIRROR_TEST_OWNERS": "1"}


def main(model: str, manner: str, run_options: list[str]) -> None:
    with tempfile.TemporaryFile("w+") as log:
        command = [*NUMAMIRROR, "run", *run_options, "--", *engine(model)]
        seen = generate_thrice(command, log, held=manner == "hold")
        log.seek(0)
        seen["stderr"] = log.read()
    print(json.dumps(seen))


def generate_thrice(command: list[str], log: Any, held: bool) -> dict[str, Any]:
    """The first generation settles the strategy, the second the threads, the third is counted."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log, "text": True}
    environment = os.environ | SHIM_SPEAKS
    with subprocess.Popen(command, **pipes, env=environment) as launcher:

        def answer() -> Any:
            return json.loads(launcher.stdout.readline() or "null")

        def again() -> Any:
            print("again", file=launcher.stdin, flush=True)
            return answer()

        first, holder = answer(), answer()
        if held:
            hold_threads(holder["pid"])
        again()
        before = counted(holder["pid"])
        last = again()
        after = counted(holder["pid"])
        launcher.stdin.close()
        code = launcher.wait()
    local, read = (after[key] - before[key] for key in ("local", "all"))
    return {
        "first": first,
        "last": last,
        "locality": local / read if read else None,
        "read_bytes": read,
        "copies": after["copies"],
        "state": after["state"],
        "resident": after["resident"],
        "weights": after["weights"],
        "exit": code,
    }


def hold_threads(pid: int) -> None:
    status = page_of(pid)
    for thread, cpu in zip(status.threads, one_cpu_per_node(pid), strict=False):
        os.sched_setaffinity(thread.tid, {cpu})


def counted(pid: int) -> dict[str, Any]:
    status = page_of(pid)
    return {
        "local": sum(r.replica_bytes + r.home_bytes + r.shard_bytes for r in status.reads),
        "all": status.read_bytes,
        "state": status.state,
        "weights": status.gemm_bytes,
        "copies": [(copy.role, copy.sampled_local, copy.sampled_pages) for copy in status.copies],
        "resident": resident_bytes(pid),
    }


def page_of(pid: int) -> MirrorStatus:
    status = read_mirror_status(pid)
    assert status is not None, f"process {pid} has no status page"
    return status


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
