"""Runs inside the guest: the steps of DIR/steps.json, one after the other, results into DIR."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NEVER = -1000


def main(exchange: Path) -> None:
    set_oom_score(NEVER)
    for key in ("HOME", "TMPDIR"):
        Path(os.environ[key]).mkdir(parents=True, exist_ok=True)
    for number, step in enumerate(json.loads((exchange / "steps.json").read_text())):
        print(f"guest: {step['name']}", flush=True)  # the console shows where it got to
        result = json.dumps(run(step))
        (exchange / f"result-{number}.json").write_text(result)


def run(step: dict[str, Any]) -> dict[str, Any]:
    """Runs one step in a process group of its own, so that its limit ends all it started."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        code, timed_out = run_command(step, stdout, stderr)
        return {
            "name": step["name"],
            "code": code,
            "stdout": content(stdout),
            "stderr": content(stderr),
            "seconds": time.monotonic() - started,
            "timed_out": timed_out,
        }


def run_command(step: dict[str, Any], stdout: Any, stderr: Any) -> tuple[int, bool]:
    try:
        process = subprocess.Popen(
            step["command"],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, **step["environment"]},
            start_new_session=True,
            preexec_fn=lambda: set_oom_score(0),
        )
    except OSError as error:
        stderr.write(f"{error}\n".encode())
        return 127, False
    try:
        return process.wait(step["limit"]), False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait(), True


def set_oom_score(adjustment: int) -> None:
    """proc(5), /proc/PID/oom_score_adj: a step may fill the memory, its results must survive."""
    Path("/proc/self/oom_score_adj").write_text(str(adjustment))


def content(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode(errors="replace"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
