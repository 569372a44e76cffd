"""The launcher's pipe for events, where sockets are refused: who writes into it is not trusted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from numamirror_cli.launch.event_pipe import EventPipe
from numamirror_cli.launch.events import MOST_BYTES, read_event
from tests.unit.launch.conftest import SECONDS, Recorded

HELLO = json.dumps({"v": 1, "pid": 7, "event": "hello", "version": "1"}).encode()


@pytest.fixture
def pipe() -> Iterator[EventPipe]:
    opened = EventPipe(lambda pid: None)
    yield opened
    opened.close()


def write(pipe: EventPipe, text: bytes) -> None:
    path = pipe.name.partition("#")[0]
    descriptor = os.open(path, os.O_WRONLY)
    os.write(descriptor, text)
    os.close(descriptor)


def receive(pipe: EventPipe, ours: int = 7) -> list[str]:
    return [event.name for event in pipe.receive(0.0, lambda pid: pid == ours)]


def test_an_event_that_comes_in_pieces_is_one_event(pipe: EventPipe) -> None:
    write(pipe, HELLO[:10])
    assert receive(pipe) == []
    write(pipe, HELLO[10:] + b"\n" + HELLO + b"\n")
    assert receive(pipe) == ["hello", "hello"]
    assert pipe.ignored == 0


def test_a_line_without_an_end_takes_no_memory_and_hides_no_event(pipe: EventPipe) -> None:
    for _ in range(40):
        write(pipe, b"x" * 60_000)
        assert receive(pipe) == []
        assert len(pipe._rest) <= MOST_BYTES + 1
    write(pipe, b"\n" + HELLO + b"\n")
    assert receive(pipe) == ["hello"]
    assert pipe.ignored == 1


def test_an_event_in_the_name_of_a_stranger_is_not_believed(pipe: EventPipe) -> None:
    write(pipe, HELLO + b"\n")
    assert receive(pipe, ours=8) == []
    assert pipe.ignored == 1


def test_an_event_longer_than_any_of_the_shims_is_none() -> None:
    """A receiver asks for one byte more than that, so that what was cut off is not believed."""
    padded = HELLO[:-1] + b" " * (MOST_BYTES - len(HELLO)) + b"}"
    assert read_event(padded) is not None
    assert read_event(padded[:-1] + b" }") is None


# ---- real runs ----


def run_without_sockets(program: Path, env: dict[str, str], record: Recorded) -> str:
    """What `run` says where a socket is refused: an address family that the kernel has not."""
    words = ["run", "--rehearse", "2", "--json", str(record.path), str(program)]
    without = (
        "import socket, sys; socket.AF_UNIX = 99; from numamirror_cli.cli import main; "
        f"sys.argv[1:] = {words!r}; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", without], env=env, capture_output=True, text=True, timeout=SECONDS
    )
    assert result.returncode == 0, result.stderr
    return result.stderr


def test_without_sockets_events_are_live_and_a_program_that_ends_at_once_is_found(
    python_script: Callable[[str], Path], shim_env: dict[str, str], record: Recorded
) -> None:
    program = python_script("from tests.unit.launch import speaker\nspeaker.mirror()")
    said = run_without_sockets(program, shim_env, record)
    assert "numamirror: pretend node 1: replica of 235 MiB" in said
    names = [event["event"] for event in record.read()["events"]]
    assert names == ["hello", "engine", "build", "replica", "primary", "coverage"]
    assert record.read()["mirror"]["coverage"] == 1.0


def test_without_sockets_garbage_and_strangers_are_counted_and_not_believed(
    python_script: Callable[[str], Path], shim_env: dict[str, str], record: Recorded
) -> None:
    program = python_script(
        """
from tests.unit.launch import speaker
speaker.write_line(b"garbage")
for _ in range(3):
    speaker.write_line(b"x" * 60_000)
speaker.write_line(b'{"v":1,"pid":1,"event":"freed","bytes":1}')
"""
    )
    said = run_without_sockets(program, shim_env, record)
    assert record.read()["events"] == []
    assert "5 datagrams were not believed" in " ".join(said.split())
