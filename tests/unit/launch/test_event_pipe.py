"""The launcher's pipe for events, where sockets are refused: who writes into it is not trusted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from numamirror_cli.launch.event_pipe import EventPipe
from numamirror_cli.launch.events import MOST_BYTES, read_event

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
