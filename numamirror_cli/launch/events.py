"""Live events from the shim: one JSON datagram each, over an abstract socket (docs/protocol.md).

Any process on the machine may send to an abstract socket. Only what comes from the child or its
descendants is believed, by the credentials that the kernel attaches (SO_PASSCRED, unix(7)).
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

VERSION = 1
# Of these only the last one would matter: nobody keeps them.
PASSING = frozenset({"progress", "placing"})
MOST_BYTES = 4096

# Python 3.10 has no names for these. struct ucred: pid, uid, gid.
_SCM_CREDENTIALS = 2
_UCRED = struct.Struct("3i")

# What each event must carry, by type; what else it carries is ignored.
_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "hello": {"version": str},
    "engine": {"library": str},
    "build": {"copy": int, "node": int, "bytes": int},
    "progress": {"copy": int, "done_bytes": int, "bytes": int},
    "placing": {"done_bytes": int, "bytes": int},
    "placed": {"bytes": int, "pages": int, "local": int, "threads": int, "ns": int},
    "replica": {
        "copy": int,
        "node": int,
        "bytes": int,
        "ns": int,
        "sampled_pages": int,
        "sampled_local": int,
    },
    "primary": {"node": int, "bytes": int, "sampled_pages": int, "sampled_local": int},
    "coverage": {"gemm_bytes": int, "mirrored_bytes": int},
    "upload": {"device": str, "node": int, "copy": int},
    "note": {"what": str},
    "freed": {"bytes": int},
}


@dataclass(frozen=True)
class Event:
    """t: seconds since the child's start; pid: the sender, as the kernel names it; data: the
    datagram's object, whose required keys have the right type."""

    t: float
    pid: int
    name: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def number(self, key: str) -> int:
        """A whole number of the event, 0 when it is absent or none."""
        value = self.data.get(key)
        return value if isinstance(value, int) else 0

    def text(self, key: str) -> str:
        """A text of the event as it came, "" when it is absent or none."""
        value = self.data.get(key)
        return value if isinstance(value, str) else ""


class EventSocket:
    """The launcher's end. `name` is what NUMAMIRROR_EVENTS says.

    ignored: datagrams that were no event, or came from a process that is none of ours.
    """

    def __init__(self, keep_page: Callable[[int, int], None]) -> None:
        """keep_page(pid, descriptor) takes over the status page of a process that says hello.

        Raises OSError where there can be no such socket.
        """
        self.name = f"@numamirror-{os.getpid()}-{os.urandom(8).hex()}"
        self.ignored = 0
        self._keep_page = keep_page
        self._known: set[int] = set()
        self._socket = socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        )
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind("\0" + self.name[1:])

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        """What is sent from now on is lost."""
        self._socket.close()

    def receive(self, seconds: float, is_ours: Callable[[int], bool]) -> list[Event]:
        """All events that wait. seconds: since the child's start. is_ours(pid) says whether a
        sender is the child or below it."""
        events: list[Event] = []
        while True:
            try:
                datagram, descriptors, pid = self._receive_one()
            except BlockingIOError:
                return events
            event = self._believe(datagram, pid, seconds, is_ours)
            if event is None:
                self.ignored += 1
            else:
                events.append(event)
                if event.name == "hello" and descriptors:
                    self._keep_page(pid, descriptors.pop(0))
            for descriptor in descriptors:
                os.close(descriptor)

    def _receive_one(self) -> tuple[bytes, list[int], int]:
        space = socket.CMSG_SPACE(_UCRED.size) + socket.CMSG_SPACE(4 * 8)
        # One byte more than is allowed, so that too much is seen to be too much.
        datagram, ancillary, _, _ = self._socket.recvmsg(
            MOST_BYTES + 1, space, socket.MSG_CMSG_CLOEXEC
        )
        descriptors: list[int] = []
        pid = 0
        for level, kind, data in ancillary:
            if level != socket.SOL_SOCKET:
                continue
            if kind == socket.SCM_RIGHTS:
                whole = len(data) - len(data) % 4
                descriptors += struct.unpack(f"{whole // 4}i", data[:whole])
            elif kind == _SCM_CREDENTIALS:
                pid = _UCRED.unpack(data[: _UCRED.size])[0]
        return datagram, descriptors, pid

    def _believe(
        self, datagram: bytes, pid: int, seconds: float, is_ours: Callable[[int], bool]
    ) -> Event | None:
        if pid not in self._known and not is_ours(pid):
            return None
        read = read_event(datagram)
        if read is None:
            return None
        self._known.add(pid)
        name, data = read
        return Event(seconds, pid, name, data)


def read_event(datagram: bytes) -> tuple[str, dict[str, Any]] | None:
    """The event's name and its object; None for what is no event of version 1."""
    if len(datagram) > MOST_BYTES:
        return None
    try:
        # A path need not be UTF-8, and a phrase may be cut off inside a character.
        data = json.loads(datagram.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("v") != VERSION:
        return None
    name = data.get("event")
    required = _FIELDS.get(name) if isinstance(name, str) else None
    if required is None or not all(_is(data.get(key), kind) for key, kind in required.items()):
        return None
    return str(name), data


def _is(value: object, kind: type) -> bool:
    if kind is int:
        # True is an int to Python; and no amount of bytes is negative or above 2^63.
        return isinstance(value, int) and not isinstance(value, bool) and -1 <= value < 1 << 63
    return isinstance(value, kind)
