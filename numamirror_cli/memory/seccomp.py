"""Filters of system calls: what a process is under, and for which of our calls they kill.

A container's filter answers with an errno; a unit's SystemCallFilter= kills unless it is told
otherwise (systemd.exec(5)). What would kill is found by children that do it and may die of it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from numamirror_cli.memory import syscalls

# What launcher and shim do that another program may never do, each in a way that changes nothing
# but the child that tries it. Of move_pages and mbind no pages are asked for.
_TRIALS: Mapping[str, Callable[[], object]] = {
    "get_mempolicy": lambda: syscalls.call("get_mempolicy", None, None, 0, None, 0),
    "set_mempolicy": lambda: syscalls.call("set_mempolicy", 0, None, 0),
    "mbind": lambda: syscalls.call("mbind", 0, 0, 0, None, 0, 0),
    "move_pages": lambda: syscalls.call("move_pages", 0, 0, None, None, None, 0),
    "sched_setaffinity": lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
    "memfd_create": lambda: os.memfd_create(""),
    "socket": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
}


def read_seccomp(pid: int | None = None, root: Path = Path("/")) -> int | None:
    """The seccomp mode of a process or of this one: 0 none, 1 strict, 2 filter; None if unknown."""
    return _status_number("Seccomp", pid, root)


def read_filters(pid: int | None = None, root: Path = Path("/")) -> int | None:
    """How many seccomp filters a process, or this one, is under; None if unknown.

    A child inherits its parent's (seccomp(2)): what it has beyond them is its own.
    """
    return _status_number("Seccomp_filters", pid, root)


def _status_number(field: str, pid: int | None, root: Path) -> int | None:
    """A field of /proc/PID/status (proc(5))."""
    status = root / "proc" / ("self" if pid is None else str(pid)) / "status"
    try:
        lines = status.read_text(errors="replace").splitlines()
    except OSError:
        return None
    values = [line.partition(":")[2].strip() for line in lines if line.startswith(f"{field}:")]
    return int(values[0]) if values and values[0].isdecimal() else None


def deadly_calls() -> tuple[str, ...]:
    """Those of our system calls for which this process would be killed; none without a filter."""
    if not read_seccomp():
        return ()
    deadly: list[str] = []
    untried = list(_TRIALS)
    while untried:
        survived = _survived(untried)
        deadly += untried[survived : survived + 1]
        untried = untried[survived + 1 :]
    return tuple(deadly)


def _survived(names: Sequence[str]) -> int:
    """How many of those calls, in order, a child makes until one kills it."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for name in names:
                _try(name)
                os.write(write_end, b".")
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as progress:
        survived = len(progress.read())
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGSYS, signal.SIGKILL)
    return survived if killed else len(names)


def _try(name: str) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        _TRIALS[name]()
