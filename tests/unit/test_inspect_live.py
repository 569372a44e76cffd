"""`inspect --watch`, `--until-settled`, names and wrappers, on processes that really run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.memory import inspection
from numamirror_cli.memory.inspection import inspect_process
from numamirror_cli.memory.process import is_same, read_process
from numamirror_cli.memory.settle import Look, is_quiet, quiet_since, take_look, wait_until_settled
from tests.unit.memory.replay import PID, two_node_root, write_process

MIB = 1 << 20


@contextmanager
def python(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process that has printed its first line."""
    child = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout
    assert child.stdout.readline()
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def numamirror(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "numamirror_cli", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
    )


@pytest.mark.parametrize(
    ("last_step", "reaped", "says"),
    [
        ("read_threads", True, "ended while it was looked at"),
        ("read_maps", False, "has ended"),
    ],
)
def test_a_process_that_ends_while_it_is_looked_at_is_no_table_and_no_kernel_thread(
    monkeypatch: pytest.MonkeyPatch, last_step: str, reaped: bool, says: str
) -> None:
    """That it ends just then is arranged; it is a real process, and it has really ended."""
    real = getattr(inspection, last_step)
    with python("print('up', flush=True); import time; time.sleep(60)") as child:

        def and_end(*words: object) -> object:
            seen = real(*words) if reaped else ()
            child.kill()
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            if reaped:
                child.wait()
            return seen

        monkeypatch.setattr(inspection, last_step, and_end)
        with pytest.raises(NumaMirrorError) as raised:
            inspection.inspect_process(child.pid)
    assert raised.value.message.startswith(f"process {child.pid} (")
    assert raised.value.message.endswith(f") {says}")


# Grows by 8 MiB for each line that it gets, and answers when it has.
GROWS_WHEN_TOLD = """
import sys
print("up", flush=True)
kept = []
for _ in sys.stdin:
    kept.append(bytearray(b"x") * (8 << 20))
    print("grown", flush=True)
"""


def test_until_settled_waits_for_growth_to_end_and_says_how_long_it_took():
    """It grows at each of the first ten looks, and then no more."""
    looks: list[Look] = []

    def grow(before: Look, now: Look) -> None:
        looks.append(now)
        if len(looks) <= 10:
            assert child.stdin and child.stdout
            print("grow", file=child.stdin, flush=True)
            assert child.stdout.readline() == "grown\n"

    with python(GROWS_WHEN_TOLD) as child:
        settled = wait_until_settled(child.pid, 1.0, 0.1, grow)
    assert looks[10].bytes - looks[0].bytes >= 80 * MIB
    assert settled.seconds >= looks[10].at - looks[0].at
    assert settled.looks == len(looks)
    assert looks[-1].at - looks[10].at >= 1.0


def test_until_settled_says_that_nothing_moves_and_shows_where_it_lies():
    with python("m = bytearray(b'x') * (64 << 20); print(1, flush=True); input()") as child:
        wait = ("--until-settled", "--interval", 0.1, "--quiet-for", 0.2, "--json")
        done = numamirror("inspect", child.pid, *wait)
        out, err = done.communicate(timeout=300)
    assert done.returncode == 0
    assert err.startswith("numamirror: settled after ")
    assert err.endswith(" s: nothing has moved for 0.2 s\n")
    placed = json.loads(out)["placement_bytes"]
    assert sum(sum(rows.values()) for rows in placed.values()) > 64 * MIB


def test_there_is_no_look_at_a_process_that_has_given_its_memory_back():
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    try:
        with pytest.raises(NumaMirrorError, match=f"process {child.pid} has ended"):
            take_look(child.pid)
    finally:
        child.wait()


# `numamirror` at whose first look the process that it looks at is ended.
ENDED_BY_A_LOOK = """
import os, signal
from numamirror_cli.cli import main
from numamirror_cli.memory import settle
look = settle.take_look
def look_and_end(pid, *root):
    seen = look(pid, *root)
    os.kill(pid, signal.SIGKILL)
    return seen
settle.take_look = look_and_end
main()
"""


def test_until_settled_fails_when_the_process_ends_before():
    with python("print(1, flush=True); input()") as child:
        words = ("inspect", str(child.pid), "--until-settled", "--interval", "0.1")
        done = subprocess.run(
            [sys.executable, "-c", ENDED_BY_A_LOOK, *words],
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert f"process {child.pid} (python" in done.stderr
    assert "ended before it settled" in done.stderr


def test_a_process_that_has_given_its_memory_back_is_ending(tmp_path):
    """Between that and the zombie lies a while in which /proc shows a process without memory."""
    root = two_node_root(tmp_path)
    write_process(root, "", arguments=("engine", "-m", "m.gguf"))
    process = read_process(PID, root)
    assert is_same(process, root)
    (root / f"proc/{PID}/cmdline").write_text("")
    assert not is_same(process, root)
    with pytest.raises(NumaMirrorError, match="has ended"):
        inspect_process(PID, root)


def test_a_page_read_from_disk_or_moved_is_no_rest():
    at_rest = Look(0.0, 500, {0: 1000 * MIB, 1: 0})
    assert is_quiet(at_rest, Look(2.0, 500, {0: 1000 * MIB, 1: 0}))
    assert is_quiet(at_rest, Look(2.0, 502, {0: 1000 * MIB + 4096, 1: 0}))
    assert not is_quiet(at_rest, Look(2.0, 503, {0: 1000 * MIB, 1: 0}))
    assert not is_quiet(at_rest, Look(2.0, 500, {0: 990 * MIB, 1: 10 * MIB}))


def test_a_slow_drift_does_not_pass_for_rest():
    """Each step alone is below what is tolerated; together they are not."""
    looks = [Look(float(n), 0, {0: 1000 * MIB + n * MIB // 2}) for n in range(60)]
    assert quiet_since(looks).at >= 57


def test_watch_with_json_prints_a_line_each_time_and_ends_well_with_the_process():
    with python("print(1, flush=True)\nimport time; time.sleep(60)") as child:
        watcher = numamirror("inspect", child.pid, "--watch", "--json", "--interval", 0.1)
        assert watcher.stdout
        documents = [json.loads(watcher.stdout.readline()) for _ in range(3)]
        child.kill()
        child.wait()
        _, err = watcher.communicate(timeout=300)
    assert {d["pid"] for d in documents} == {child.pid}
    assert watcher.returncode == 0
    assert "has ended" in err


def test_watch_ends_well_with_ctrl_c():
    with python("print(1, flush=True)\nimport time; time.sleep(60)") as child:
        watcher = numamirror("inspect", child.pid, "--watch", "--interval", 0.1)
        assert watcher.stdout
        while "Total" not in watcher.stdout.readline():
            pass
        watcher.send_signal(signal.SIGINT)
        _, err = watcher.communicate(timeout=300)
    assert (watcher.returncode, err) == (0, "")


def test_a_dump_is_not_watched():
    done = numamirror("inspect", 1, "--watch", "--root", "/tmp")
    _, err = done.communicate(timeout=300)
    assert done.returncode == 2
    assert "a dump does not change" in err


@pytest.mark.parametrize("by_name", [False, True])
def test_a_script_is_followed_to_what_it_started(tmp_path, by_name):
    script = tmp_path / "start-the-engine.sh"
    code = "m = bytearray(b'x') * (64 << 20); print(1, flush=True); import time; time.sleep(60)"
    script.write_text(f'#!/bin/sh\necho up\n{sys.executable} -c "{code}"\ntrue\n')
    script.chmod(0o755)
    wrapper = subprocess.Popen([script], stdout=subprocess.PIPE, text=True)
    assert wrapper.stdout
    assert [wrapper.stdout.readline() for _ in range(2)] == ["up\n", "1\n"]
    try:
        target = "start-the-engine" if by_name else wrapper.pid
        out, err = numamirror("inspect", target, "--json").communicate(timeout=300)
        shown = json.loads(out)
        assert shown["arguments"][:2] == [sys.executable, "-c"]
        assert f"{wrapper.pid} (start-the-engin) has started {shown['pid']}" in err
        out, err = numamirror("inspect", target, "--json", "--no-follow").communicate(timeout=300)
        assert (json.loads(out)["pid"], err) == (wrapper.pid, "")
    finally:
        os.kill(shown["pid"], signal.SIGKILL)
        wrapper.wait()
