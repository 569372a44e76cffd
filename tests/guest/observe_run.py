"""Runs inside the guest: `numamirror run` with an engine that stays, looked at from outside.

    observe_run.py MODEL [RUN-OPTION...]

Prints one JSON document. Where pages lie is asked of the kernel by code of this directory alone;
"status" and "reads" are the shim's own counts, "inspect" and "run" our commands' words.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from kernel_view import (
    anonymous_pages,
    node_of_cpu,
    one_cpu_per_node,
    pages_by_node,
    pages_of_file,
    replica_arenas,
    task_policy,
)

from numamirror_cli.memory.status_page import MirrorStatus, read_mirror_status

HERE = Path(__file__).parent
COUNTS = ("replica_bytes", "home_bytes", "shard_bytes", "other_bytes")
NUMAMIRROR = [sys.executable, "-m", "numamirror_cli"]


def main(model: str, run_options: list[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        record, log = Path(scratch) / "run.json", Path(scratch) / "stderr"
        run = [*NUMAMIRROR, "run", "--json", str(record), *run_options, "--"]
        with log.open("w") as stderr:
            seen = watch([*run, *engine(model)], model, stderr)
        seen["stderr"] = log.read_text(errors="replace")
        seen["run"] = json.loads(record.read_text()) if record.exists() else None
    print(json.dumps(seen))


def engine(model: str) -> list[str]:
    """One compute thread for each node whose CPUs this process may use.

    OBSERVE_UNDER: a command line to put before the engine's. OBSERVE_THREADS: another number.
    """
    under = shlex.split(os.environ.get("OBSERVE_UNDER", ""))
    threads = os.environ.get("OBSERVE_THREADS") or str(len(one_cpu_per_node(0)))
    return [*under, sys.executable, str(HERE / "hold_engine.py"), model, threads]


def watch(command: list[str], model: str, stderr: Any) -> dict[str, Any]:
    """Lets the engine generate, looks at it, and lets it end."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": stderr, "text": True}
    with subprocess.Popen(command, **pipes) as launcher:

        def answer() -> Any:
            return json.loads(launcher.stdout.readline() or "null")

        def generate_again() -> Any:
            print("again", file=launcher.stdin, flush=True)
            return answer()

        seen = {"line": answer()}
        holder = answer()
        if holder:
            seen |= look_at(model, generate_again, **holder)
        launcher.stdin.close()
        seen["exit"] = launcher.wait()
    return seen


def look_at(
    model: str, generate_again: Callable[[], Any], pid: int, extents: list[tuple[int, int]]
) -> dict[str, Any]:
    return {
        "policy": task_policy(pid),
        "primary": {
            "bytes": sum(size for _, size in extents),
            "pages": pages_by_node(pid, extents),
        },
        "model": pages_of_file(pid, model),
        "replicas": replica_arenas(pid),
        "anonymous": anonymous_pages(pid),
        "reads": reads_when_pinned(pid, generate_again),
        "status": as_dict(read_mirror_status(pid)),
        "scratch_before": scratch_pages(pid),
        "inspect": inspect(pid),
        "scratch_after": scratch_pages(pid),
    }


def reads_when_pinned(pid: int, generate_again: Callable[[], Any]) -> list[dict[str, Any]]:
    """What each compute thread reads in one generation, while it is held on one CPU.

    The holding makes it certain from which node a thread reads: [{"node", "replica_bytes",
    "home_bytes", "other_bytes"}, ...]. The shim starts a thread's count anew when the thread comes
    to another node; that happens in a generation that is not counted.
    """
    status = read_mirror_status(pid)
    if status is None or "OBSERVE_NO_READS" in os.environ:
        return []
    cpus = one_cpu_per_node(pid)
    held = {thread.tid: cpu for thread, cpu in zip(status.threads, cpus, strict=True)}
    for tid, cpu in held.items():
        os.sched_setaffinity(tid, {cpu})
    generate_again()
    before = {tid: reads_of(pid, tid) for tid in held}
    generate_again()
    after = {tid: reads_of(pid, tid) for tid in held}
    return [
        {"node": node_of_cpu(cpu)} | {name: after[tid][name] - before[tid][name] for name in COUNTS}
        for tid, cpu in held.items()
    ]


def reads_of(pid: int, tid: int) -> dict[str, int]:
    status = read_mirror_status(pid)
    assert status is not None
    thread = next(thread for thread in status.threads if thread.tid == tid)
    return {name: getattr(thread, name) for name in COUNTS}


def scratch_pages(pid: int) -> dict[str, dict[str, int]]:
    """Pages per node of the memory without weights that the shim tells of, by its kind."""
    status = read_mirror_status(pid)
    told = status.buffers if status else ()
    return {
        kind: pages_by_node(pid, [(b.start, b.bytes) for b in told if b.kind == kind])
        for kind in {buffer.kind for buffer in told}
    }


def as_dict(status: MirrorStatus | None) -> dict[str, Any] | None:
    return dataclasses.asdict(status) if status else None


def inspect(pid: int) -> Any:
    command = [*NUMAMIRROR, "inspect", "--json", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
