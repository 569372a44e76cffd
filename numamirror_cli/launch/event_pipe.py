"""Live events where sockets are refused: lines in a pipe of the launcher (docs/protocol.md).

A pipe names no sender and carries no descriptor. Whoever can open it may read and change our memory
anyway (proc(5): PTRACE_MODE_READ), so that an event's word on its sender is taken, as far as that
is a process below us; and the status page is looked for in /proc at the very hello, while a short
program still lives.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from numamirror_cli.launch.events import MOST_BYTES, Event, read_event

_AT_ONCE = 65536


class EventPipe:
    """The launcher's end. `name` is what NUMAMIRROR_EVENTS says: the pipe's other end and, for a
    process that sees another /proc, its inode.

    ignored: lines that were no event, or named a process that is none of ours.
    """

    def __init__(self, find_page: Callable[[int], None]) -> None:
        """find_page(pid) looks for the status page of a process that says hello."""
        self.ignored = 0
        self._find_page = find_page
        self._known: set[int] = set()
        self._rest = b""
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        inode = os.fstat(self._writer).st_ino
        self.name = f"/proc/{os.getpid()}/fd/{self._writer}#{inode}"

    def fileno(self) -> int:
        return self._reader

    def close(self) -> None:
        """What is sent from now on is lost."""
        os.close(self._reader)
        os.close(self._writer)

    def receive(self, seconds: float, is_ours: Callable[[int], bool]) -> list[Event]:
        """As EventSocket.receive."""
        events = []
        for line in self._lines():
            event = self._believe(line, seconds, is_ours)
            if event is None:
                self.ignored += 1
                continue
            events.append(event)
            if event.name == "hello":
                self._find_page(event.pid)
        return events

    def _lines(self) -> list[bytes]:
        """Whole lines only; of one without an end no more is kept than an event may have."""
        lines: list[bytes] = []
        while True:
            try:
                text = self._rest + os.read(self._reader, _AT_ONCE)
            except BlockingIOError:
                return lines
            *whole, rest = text.split(b"\n")
            lines += whole
            self._rest = rest[: MOST_BYTES + 1]

    def _believe(self, line: bytes, seconds: float, is_ours: Callable[[int], bool]) -> Event | None:
        read = read_event(line)
        if read is None:
            return None
        name, data = read
        pid = data.get("pid")
        if not isinstance(pid, int) or (pid not in self._known and not is_ours(pid)):
            return None
        self._known.add(pid)
        return Event(seconds, pid, name, data)
