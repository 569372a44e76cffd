"""What the shim says reaches the user, live and at the end; what others say does not."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamirror_cli.launch.events import Event, read_event
from numamirror_cli.launch.session import reason_to_look
from numamirror_cli.report.run import event_line
from tests.unit.launch.conftest import (
    NUMAMIRROR,
    SECONDS,
    Recorded,
    numamirror_run,
    numamirror_run_until,
)

REHEARSE = ("--rehearse", "2")
RunProgram = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_speaker(
    python_script: Callable[[str], Path], shim_env: dict[str, str], record: Recorded
) -> RunProgram:
    """Runs Python text that speaks as the shim (`speaker`), with --json."""

    def run(text: str, *options: str) -> subprocess.CompletedProcess[str]:
        program = python_script(f"from tests.unit.launch import speaker\n{text}")
        return numamirror_run(*REHEARSE, "--json", record.path, *options, program, env=shim_env)

    return run


def test_replica_and_coverage_are_said_while_the_program_runs(run_speaker: RunProgram) -> None:
    result = run_speaker("speaker.mirror()", "--report", "none")
    lines = [line for line in result.stderr.splitlines() if "node" in line or "coverage" in line]
    assert lines[-3:] == [
        "numamirror: pretend node 1: replica of 235 MiB in 0.14 s, 512 pages sampled",
        "numamirror: pretend node 0: primary of 235 MiB, 512 pages sampled",
        "numamirror: coverage 100 % (235 of 235 MiB that GEMM reads)",
    ]


def test_there_is_no_progress_bar_where_stderr_is_no_terminal(run_speaker: RunProgram) -> None:
    result = run_speaker("speaker.mirror()", "--report", "none")
    assert "%|" not in result.stderr and "━" not in result.stderr and "\x1b" not in result.stderr


def shown_on_a_terminal(program: Path, shim_env: dict[str, str]) -> bytes:
    ours, theirs = pty.openpty()
    command = [*NUMAMIRROR, "run", *REHEARSE, "--report", "none", str(program)]
    env = {**shim_env, "TERM": "xterm"}
    launcher = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal's last user has left
        while part := os.read(ours, 65536):
            shown += part
    os.close(ours)
    assert launcher.wait() == 0
    assert "━".encode() in shown
    # Erased: the last thing that is done to the bar's line is to clear it.
    assert "━".encode() not in shown.rpartition(b"\x1b[2K")[2]
    return shown


def test_on_a_terminal_a_bar_shows_the_build_and_goes_away(
    python_script: Callable[[str], Path], shim_env: dict[str, str]
) -> None:
    program = python_script("from tests.unit.launch import speaker; speaker.mirror()")
    shown = shown_on_a_terminal(program, shim_env)
    assert b"numamirror: pretend node 1: replica of 235 MiB" in shown and b" 43 %" in shown
    assert b"numamirror: node 1" not in shown


def test_on_a_terminal_a_bar_shows_rows_on_their_way_and_goes_away(
    python_script: Callable[[str], Path], shim_env: dict[str, str]
) -> None:
    program = python_script("from tests.unit.launch import speaker; speaker.shard()")
    shown = shown_on_a_terminal(program, shim_env)
    assert b"pages to their nodes, 235 MiB" in shown and b" 43 %" in shown


def test_what_shard_placed_is_said_with_its_share_and_time() -> None:
    placed = {"bytes": 235 << 20, "pages": 60160, "local": 60000, "threads": 8, "ns": 1_500_000_000}
    line = (
        "shard: 99.7 % of 235 MiB of weights on the node of their reader, 8 threads, after 1.50 s"
    )
    assert event_line(Event(1.0, 2, "placed", placed), False, False) == line
    stayed = event_line(Event(1.0, 2, "placed", placed | {"local": 30080}), False, False)
    assert stayed.startswith("shard: only 50 % of 235 MiB")
    assert "nothing was moved" in event_line(Event(1.0, 2, "placed", placed), True, False)


def test_the_status_page_is_read_after_the_program_has_ended(
    run_speaker: RunProgram, record: Recorded
) -> None:
    result = run_speaker("speaker.mirror()")
    assert "coverage 100 %" in result.stderr
    assert "rehearsal" in result.stderr
    mirror = record.read()["mirror"]
    assert (mirror["coverage"], mirror["engine"]) == (1.0, "/x/libggml-cpu.so")
    assert mirror["nodes"]["1"]["role"] == "replica"


def test_a_mirror_that_the_engine_freed_at_its_end_is_reported_all_the_same(
    run_speaker: RunProgram, record: Recorded
) -> None:
    result = run_speaker("speaker.mirror('freed')", "--require", "mirror")
    assert result.returncode == 0
    assert "NOT mirrored" not in result.stderr
    assert record.read()["mirror"]["coverage"] == 1.0


def test_the_json_file_has_plan_events_with_times_and_the_childs_end(
    run_speaker: RunProgram, record: Recorded
) -> None:
    run_speaker("speaker.mirror()\nsys.exit(3)")
    document = record.read()
    assert document["schema"] == 1
    assert document["plan"]["rehearsal"] == 2
    assert document["child"]["exit_code"] == 3 and document["child"]["signal"] is None
    assert document["kernel"] == os.uname().release
    names = [event["event"] for event in document["events"]]
    assert names == ["hello", "engine", "build", "replica", "primary", "coverage"]
    times = [event["t"] for event in document["events"]]
    assert times == sorted(times) and 0 <= times[0] <= times[-1] <= document["child"]["seconds"]
    assert all(event["pid"] == document["child"]["pid"] for event in document["events"])


def test_a_program_ended_by_a_signal_is_in_the_json_file(
    run_speaker: RunProgram, record: Recorded
) -> None:
    run_speaker("os.kill(os.getpid(), signal.SIGKILL)")
    assert record.read()["child"]["signal"] == 9


def test_a_shim_that_never_said_hello_means_not_mirrored(run_speaker: RunProgram) -> None:
    result = run_speaker("pass")
    assert "NOT mirrored: no handshake from the shim" in " ".join(result.stderr.split())
    done = subprocess.run(
        [sys.executable, "-m", "numamirror_cli", "observe", "--", "true"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "NOT observed: no handshake from the shim" in " ".join(done.stderr.split())


def test_a_program_that_drops_the_preload_is_told_from_one_without_an_engine(
    python_script: Callable[[str], Path], shim_env: dict[str, str]
) -> None:
    program = python_script("os.execve('/bin/sleep', ['sleep', '300'], {})")
    result = numamirror_run_until("shot.command == 'sleep'", *REHEARSE, program, env=shim_env)
    said = " ".join(result.stderr.split())
    assert "no handshake from the shim: it was not loaded into the program" in said
    assert "see whether a wrapper drops LD_PRELOAD" in said


def test_a_program_observed_that_read_nothing_is_no_failure(run_speaker: RunProgram) -> None:
    text = (
        "speaker.send('hello', version='1', descriptors=(speaker.status_page('observed', 0, 0),))"
    )
    result = run_speaker(text, "--observe")
    assert "ok: observed: no weights were read" in " ".join(result.stderr.split())


def test_an_engine_that_computed_nothing_means_not_mirrored(run_speaker: RunProgram) -> None:
    text = "speaker.send('hello', version='1', descriptors=(speaker.status_page('waiting', 0, 0),))"
    result = run_speaker(text)
    assert "NOT mirrored: an engine was loaded" in " ".join(result.stderr.split())


def test_a_shim_that_stays_inert_is_quoted(run_speaker: RunProgram, record: Recorded) -> None:
    note = {
        "level": "warn",
        "what": "not mirrored",
        "why": "ggml_mul_mat was not found",
        "remedy": "use a newer engine",
    }
    result = run_speaker(f"speaker.send('note', **{note})", "--report", "none")
    said = "numamirror: not mirrored: ggml_mul_mat was not found (use a newer engine)"
    assert said in result.stderr.splitlines()


def test_a_note_for_the_curious_needs_v(run_speaker: RunProgram) -> None:
    text = "speaker.send('note', level='info', what='detail', why='', remedy='')"
    assert "detail" not in run_speaker(text).stderr
    assert "numamirror: detail" in run_speaker(text, "-v").stderr


def test_control_characters_of_a_note_do_not_reach_the_terminal(run_speaker: RunProgram) -> None:
    text = r"speaker.send('note', level='warn', what='a\x1b[2Jb\r\nc')"
    result = run_speaker(text, "--report", "none")
    assert "\x1b" not in result.stderr and "\\x1b[2J" in result.stderr


def test_garbage_is_ignored_and_the_rest_is_used(run_speaker: RunProgram, record: Recorded) -> None:
    result = run_speaker(
        """
for datagram in (b"", b"\\xff", b"{", b"[]", b"{}", b'{"v":1}', b'{"v":2,"event":"hello"}',
                 b'{"v":1,"event":"coverage","gemm_bytes":"x","mirrored_bytes":1}',
                 b'{"v":1,"event":"nothing"}', b"[" * 4000, b" " * 9000):
    speaker.send_raw(datagram)
speaker.mirror()
"""
    )
    assert result.returncode == 0, result.stderr
    assert record.read()["mirror"]["coverage"] == 1.0
    assert len(record.read()["events"]) == 6


def test_a_strangers_event_is_not_believed(
    python_script: Callable[[str], Path], shim_env: dict[str, str], record: Recorded
) -> None:
    """The stranger is us, the test: neither child nor descendant of the launcher."""
    program = python_script("print(os.environ['NUMAMIRROR_EVENTS'], flush=True); sys.stdin.read()")
    launcher = subprocess.Popen(
        [*NUMAMIRROR, "run", *REHEARSE, "--json", str(record.path), str(program)],
        env=shim_env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert launcher.stdout and launcher.stdin and launcher.stderr
    name = launcher.stdout.readline().strip()
    stranger = "from tests.unit.launch import speaker; speaker.mirror()"
    env = {**shim_env, "NUMAMIRROR_EVENTS": "@elsewhere"}
    code = f"import os; os.environ['NUMAMIRROR_EVENTS'] = {name!r}; {stranger}"
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    _, said = launcher.communicate("")
    assert record.read()["events"] == [] and record.read()["mirror"] is None
    assert "7 datagrams were not believed" in " ".join(said.split())


def test_a_grandchild_is_believed_and_so_is_one_whose_parent_has_ended(
    run_speaker: RunProgram, record: Recorded
) -> None:
    run_speaker(
        """
speak = '''
import os, sys, time
while os.getppid() == int(sys.argv[1]):
    time.sleep(0.01)
from tests.unit.launch import speaker
speaker.mirror()
'''
import subprocess
ended, until_its_end = os.pipe()
command = ["sh", "-c", '(exec "$0" -c "$1" $$) & exit', sys.executable, speak]
subprocess.run(command, pass_fds=[until_its_end])
os.close(until_its_end)
os.read(ended, 1)
"""
    )
    document = record.read()
    assert document["mirror"] is not None
    assert document["events"][0]["pid"] != document["child"]["pid"]


def test_a_lost_hello_is_made_up_for_by_the_status_page_in_proc(
    run_speaker: RunProgram, record: Recorded
) -> None:
    run_speaker("kept = speaker.status_page()\nspeaker.wait_until_found()")
    assert "mirrored: 2 copies of 235 MiB" in record.read()["verdict"][0]["text"]


def test_of_two_engines_in_two_processes_the_larger_is_reported(
    run_speaker: RunProgram, record: Recorded
) -> None:
    result = run_speaker(
        """
speaker.mirror()
if os.fork() == 0:
    page = speaker.status_page("mirrored", 1 << 20, 1 << 20)
    speaker.send("hello", version="1", descriptors=(page,))
    speaker.send("engine", library="small")
    os._exit(0)
os.wait()
"""
    )
    assert record.read()["mirror"]["gemm_bytes"] == 235 << 20
    assert "2 processes had weights" in result.stderr


def test_many_processes_that_say_hello_leave_no_descriptors_behind(
    run_speaker: RunProgram, record: Recorded
) -> None:
    result = run_speaker(
        """
for _ in range(60):
    if os.fork() == 0:
        speaker.send("hello", version="1", descriptors=(speaker.status_page("waiting", 0, 0),))
        time.sleep(0.05)
        os._exit(0)
    os.wait()
print(len(os.listdir(f"/proc/{os.getppid()}/fd")))
"""
    )
    assert int(result.stdout) < 30


def test_the_report_shows_where_the_pages_were_and_when_it_looked(
    python_script: Callable[[str], Path], shim_env: dict[str, str], record: Recorded
) -> None:
    program = python_script(
        "from tests.unit.launch import speaker\nspeaker.mirror()\ntime.sleep(300)"
    )
    words = (*REHEARSE, "--json", record.path, program)
    result = numamirror_run_until("shot.cause == 'when replicas were built'", *words, env=shim_env)
    assert "Per-node process memory usage (in MBs) for PID" in result.stderr
    assert "s after start, when replicas were built)" in result.stderr
    placement = record.read()["placement"]
    assert placement["cause"] == "when replicas were built"
    assert sum(placement["placement_bytes"]["0"].values()) > 4 << 20


def test_a_look_is_said_to_be_of_when_replicas_were_built_only_where_there_are_any() -> None:
    def heard(mirrored: int) -> Event:
        return Event(1.0, 4711, "coverage", {"gemm_bytes": 8, "mirrored_bytes": mirrored})

    assert reason_to_look(heard(8)) == "when replicas were built"
    assert reason_to_look(heard(0)) == ""


def test_a_summary_is_a_few_lines(run_speaker: RunProgram) -> None:
    result = run_speaker("speaker.mirror()", "--report", "summary")
    assert "numamirror: mirrored: 2 copies of 235 MiB, coverage 100 %" in result.stderr
    assert "Per-node" not in result.stderr


def test_a_terminal_that_goes_away_during_the_build_does_not_end_the_program(
    python_script: Callable[[str], Path], shim_env: dict[str, str], tmp_path: Path
) -> None:
    program = python_script(
        f"""
import tests.unit.launch.speaker as speaker
signal.signal(signal.SIGHUP, signal.SIG_IGN)
speaker.send("hello", version="1")
speaker.send("build", copy=1, node=1, bytes=100)
time.sleep(0.5)
for done in range(100):
    speaker.send("progress", copy=1, done_bytes=done, bytes=100)
time.sleep(0.5)
open({str(tmp_path / "ended")!r}, "w").close()
sys.exit(5)
"""
    )
    ours, theirs = pty.openpty()
    command = [*NUMAMIRROR, "run", *REHEARSE, str(program)]
    env = {**shim_env, "TERM": "xterm"}
    launcher = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    while b"node 1" not in os.read(ours, 65536):
        pass
    os.close(ours)
    assert launcher.wait(SECONDS) == 5
    assert (tmp_path / "ended").exists()


@pytest.mark.parametrize(
    "data",
    [
        {"v": 1, "event": "freed", "bytes": True},
        {"v": 1, "event": "freed", "bytes": -2},
        {"v": 1, "event": "freed", "bytes": 1 << 63},
        {"v": 1, "event": "freed", "bytes": 1.5},
        {"v": 1, "event": "freed"},
        {"v": 1, "event": ["freed"]},
        {"v": "1", "event": "freed", "bytes": 1},
        {"event": "freed", "bytes": 1},
    ],
)
def test_an_event_of_the_wrong_shape_is_none(data: dict[str, Any]) -> None:
    assert read_event(json.dumps(data).encode()) is None


def test_an_event_may_carry_more_than_we_know() -> None:
    data = {"v": 1, "pid": 7, "event": "freed", "bytes": 5, "later": [1]}
    assert read_event(json.dumps(data).encode()) == ("freed", data)


EVENTS = st.fixed_dictionaries(
    {
        "v": st.just(1),
        "event": st.sampled_from(["hello", "engine", "build", "replica", "primary", "coverage",
                                  "note", "freed", "progress"]),
    },
    optional={
        key: st.one_of(st.integers(), st.text(), st.none(), st.booleans(), st.floats())
        for key in ("bytes", "node", "nodes", "copy", "ns", "sampled_pages", "sampled_local",
                    "gemm_bytes", "mirrored_bytes", "token_bytes", "token_mirrored_bytes",
                    "what", "why", "remedy", "level", "version",
                    "library")
    },
)  # fmt: skip


def test_a_copy_that_lies_over_a_socket_is_shown_with_all_its_nodes() -> None:
    data = {"copy": 1, "node": 2, "nodes": "2,3", "bytes": 235 << 20, "ns": 10**9,
            "sampled_pages": 512, "sampled_local": 256}  # fmt: skip
    line = event_line(Event(0.0, 1, "replica", data), rehearsal=False, verbose=False)
    assert line == (
        "nodes 2,3: replica of 235 MiB in 1.00 s, only 50 % of 512 sampled pages on nodes 2,3"
    )
    line = event_line(Event(0.0, 1, "primary", data), rehearsal=False, verbose=False)
    assert line.startswith("nodes 2,3: primary of 235 MiB, ")


@given(EVENTS)
def test_no_event_that_is_believed_can_break_the_report(data: dict[str, Any]) -> None:
    read_back = read_event(json.dumps(data).encode())
    if read_back is not None:
        event = Event(0.0, 1, *read_back)
        for flags in ((False, False), (True, True)):
            assert isinstance(event_line(event, *flags), str)


def test_a_path_that_is_no_utf_8_is_an_event_all_the_same() -> None:
    said = b'"level":"warn","what":"/opt/mod\xe8les: cut off in \xc3","why":"","remedy":""'
    read = read_event(b'{"v":1,"pid":1,"event":"note",' + said + b"}")
    assert read is not None
    assert read[1]["what"] == "/opt/mod\ufffdles: cut off in \ufffd"


@given(st.binary(max_size=5000))
def test_any_bytes_are_an_event_or_none(datagram: bytes) -> None:
    assert read_event(datagram) is None or datagram.startswith(b"{")
