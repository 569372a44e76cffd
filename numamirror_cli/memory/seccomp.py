"""Filters of system calls: what a process is under, which of our calls they refuse or kill for.

A container's filter answers with an errno; a unit's SystemCallFilter= kills unless it is told
otherwise (systemd.exec(5)). Both are found by children that make the calls and may die of it.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.memory import syscalls
from numamirror_cli.notice import Notice

# The kernel takes of them those that there are and that the cpuset allows (sched_setaffinity(2)).
_MOST_CPUS = 8192

# What launcher and shim do that another program may never do, each in a way that changes nothing
# but the child that tries it. Of move_pages and mbind no pages are asked for.
_TRIALS: Mapping[str, Callable[[], object]] = {
    "get_mempolicy": lambda: syscalls.call("get_mempolicy", None, None, 0, None, 0),
    "set_mempolicy": lambda: syscalls.call("set_mempolicy", 0, None, 0),
    "mbind": lambda: syscalls.call("mbind", 0, 0, 0, None, 0, 0),
    "move_pages": lambda: syscalls.call("move_pages", 0, 0, None, None, None, 0),
    "sched_setaffinity": lambda: os.sched_setaffinity(0, range(_MOST_CPUS)),
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


@dataclass(frozen=True)
class Filtered:
    """Those of our system calls that are refused with an errno, and those that kill who makes
    them."""

    refused: tuple[str, ...] = ()
    deadly: tuple[str, ...] = ()


def try_our_calls() -> Filtered:
    """What this process may not do of what launcher and shim do; nothing without a filter."""
    if not read_seccomp():
        return Filtered()
    refused: list[str] = []
    deadly: list[str] = []
    untried = list(_TRIALS)
    while untried:
        answers = _answers(untried)
        refused += (name for name, answer in zip(untried, answers, strict=False) if answer == "x")
        deadly += untried[len(answers) : len(answers) + 1]
        untried = untried[len(answers) + 1 :]
    return Filtered(tuple(refused), tuple(deadly))


def say_deadly(calls: Sequence[str]) -> Notice:
    """What is done without where a filter kills for those calls."""
    return Notice(
        "running without a policy and without the shim",
        f"a seccomp filter kills for {', '.join(calls)}",
        "allow them, or let it answer with an errno (in a unit: SystemCallErrorNumber=EPERM)",
    )


def _answers(names: Sequence[str]) -> str:
    """Of those calls, in order, that a child makes until one kills it: "." for each that is
    answered, "x" for each that is refused."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for name in names:
                os.write(write_end, b"." if _is_answered(name) else b"x")
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as progress:
        answers = progress.read().decode()
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGSYS, signal.SIGKILL)
    return answers if killed else answers.ljust(len(names), ".")


def _is_answered(name: str) -> bool:
    try:
        _TRIALS[name]()
    except OSError:
        return False
    return True
