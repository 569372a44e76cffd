"""Runs inside the guest: on which nodes the kernel has an engine's threads while it computes.

    pin_run.py MODEL THREADS [RUN-OPTION...]

Between a first generation and the one that is watched, each thread is bound to node 0, as an engine
does that sets affinities itself. Prints {"first", "last", "masks", "threads", "exit"}: what was
generated; the CPUs on which each thread may run after the first time; threads by node while the
last one runs, each counted where it was seen most.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from kernel_view import node_of_cpu
from observe_run import NUMAMIRROR

from numamirror_cli.memory.status_page import read_mirror_status

# Field 39 of /proc/PID/task/TID/stat (proc(5)), counted behind the name in parentheses.
PROCESSOR = 39 - 3
INTERVAL_SECONDS = 0.05


def main(model: str, threads: str, run_options: list[str]) -> None:
    engine = [sys.executable, str(Path(__file__).parent / "hold_engine.py"), model, threads]
    command = [*NUMAMIRROR, "run", "--report", "none", *run_options, "--", *engine]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as launcher:
        first, pid = json.loads(launcher.stdout.readline()), holder_of(launcher)
        masks = [sorted(os.sched_getaffinity(tid)) for tid in computing(pid)]
        for tid in computing(pid):
            os.sched_setaffinity(tid, cpus_of_node(0))
        last, seen = watch(launcher, pid)
        launcher.stdin.close()
        code = launcher.wait()
    nodes = collections.Counter(by_node.most_common(1)[0][0] for by_node in seen.values())
    seen_all = {"first": first, "last": last, "masks": masks, "threads": nodes, "exit": code}
    print(json.dumps(seen_all))


def holder_of(launcher: Any) -> int:
    pid: int = json.loads(launcher.stdout.readline())["pid"]
    return pid


def computing(pid: int) -> list[int]:
    status = read_mirror_status(pid)
    return [thread.tid for thread in status.threads] if status else []


def cpus_of_node(node: int) -> set[int]:
    return {cpu for cpu in os.sched_getaffinity(0) if node_of_cpu(cpu) == node}


def watch(launcher: Any, pid: int) -> tuple[Any, dict[int, collections.Counter[int]]]:
    """Lets the engine generate once more; returns that, and how often each thread was on a node."""
    answers: list[str] = []
    print("again", file=launcher.stdin, flush=True)
    reader = threading.Thread(target=lambda: answers.append(launcher.stdout.readline()))
    reader.start()
    seen: dict[int, collections.Counter[int]] = {}
    while reader.is_alive():
        for tid in computing(pid):
            seen.setdefault(tid, collections.Counter()).update([node_of_thread(pid, tid)])
        time.sleep(INTERVAL_SECONDS)
    reader.join()
    return json.loads(answers[0]), seen


def node_of_thread(pid: int, tid: int) -> int:
    stat = Path(f"/proc/{pid}/task/{tid}/stat").read_text()
    return node_of_cpu(int(stat.rpartition(")")[2].split()[PROCESSOR]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
