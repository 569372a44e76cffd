"""One process in /proc: what it is called, whether it is really gone, and why it can't be read."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.errors import NumaMirrorError, unreadable

WHO_RUNS = "ps -ef shows what runs"
NO_PERMISSION_HINT = (
    "run as its owner or with sudo (root, or CAP_SYS_PTRACE, may read another user's process)"
)

_ODD_KERNEL = "please report it with what `uname -a` says"


@dataclass(frozen=True)
class Process:
    """What a process is.

    command: its short name (comm), as ps and numastat show it. arguments: its command line.
    started: clock ticks since boot; with the pid it names the process for good.
    """

    pid: int
    command: str
    arguments: tuple[str, ...]
    state: str
    started: int
    parent: int


def proc_dir(pid: int, root: Path = Path("/")) -> Path:
    """The process's directory below that root."""
    return root / "proc" / str(pid)


def read_process(pid: int, root: Path = Path("/")) -> Process:
    """Describe a process. Raises NumaMirrorError when there is none or it may not be read."""
    # Bytes: read as text, a carriage return in a name would become a line's end.
    with reading(pid, "stat", root) as path:
        stat = path.read_bytes().decode(errors="replace")
    with reading(pid, "cmdline", root) as path:
        cmdline = path.read_bytes().decode(errors="replace")
    return _parse_process(pid, stat, cmdline)


def _parse_process(pid: int, stat: str, cmdline: str) -> Process:
    # The name may itself hold blanks and parentheses: the last one closes it (proc(5)).
    name, _, rest = stat.partition("(")[2].rpartition(")")
    fields = rest.split()
    try:
        state, parent, started = fields[0], int(fields[1]), int(fields[19])
    except (IndexError, ValueError):
        message = f"/proc/{pid}/stat: not understood: {stat.strip()!r}"
        raise NumaMirrorError(message, hint=_ODD_KERNEL) from None
    arguments = tuple(cmdline.rstrip("\0").split("\0")) if cmdline else ()
    return Process(pid, name, arguments, state, started, parent)


def read_major_faults(pid: int, root: Path = Path("/")) -> int:
    """Page faults since the start that had to wait for a disk (proc(5), majflt), all threads.

    Raises NumaMirrorError when the process is gone or the figure cannot be read.
    """
    with reading(pid, "stat", root) as path:
        fields = path.read_text(errors="replace").rpartition(")")[2].split()
    try:
        return int(fields[9])
    except (IndexError, ValueError):
        message = f"/proc/{pid}/stat: no number of major faults"
        raise NumaMirrorError(message, hint=_ODD_KERNEL) from None


def is_same(process: Process, root: Path = Path("/")) -> bool:
    """The process still runs: it has not ended, and its pid names no other one meanwhile.

    One that is ending has given its memory back already, and its command line with it.
    """
    try:
        now = read_process(process.pid, root)
    except NumaMirrorError:
        return False
    is_ending = bool(process.arguments) and not now.arguments
    return now.started == process.started and now.state not in "ZX" and not is_ending


@contextmanager
def reading(pid: int, name: str, root: Path = Path("/")) -> Iterator[Path]:
    """The path of /proc/PID/NAME; errors while it is opened or read become NumaMirrorError.

    A missing file means "no such process" only if the process's `stat` is missing too. A file that
    opens and whose read fails is an error like one that does not open: never an empty answer.
    """
    path = proc_dir(pid, root) / name
    try:
        yield path
    except OSError as error:
        raise explain(error, pid, name, root) from None


def explain(error: OSError, pid: int, name: str, root: Path = Path("/")) -> NumaMirrorError:
    """What an OSError on /proc/PID/NAME means to the user."""
    if error.errno in (errno.EACCES, errno.EPERM):
        whose = _owner(pid, root)
        return NumaMirrorError(f"not allowed to read /proc/{pid}/{name}{whose}", hint=_remedy())
    if error.errno in (errno.ENOENT, errno.ESRCH):
        if not (proc_dir(pid, root) / "stat").exists():
            return NumaMirrorError(f"no process {pid}", hint=WHO_RUNS)
        if name == "exe":
            what = "it has ended, or is a kernel thread"
            return NumaMirrorError(f"process {pid} runs no program: {what}", hint=WHO_RUNS)
        if name == "numa_maps":
            return NumaMirrorError(
                "this kernel has no NUMA: /proc/PID/numa_maps does not exist",
                hint="nothing to inspect: all memory is one node (CONFIG_NUMA is off, or a "
                "sandbox hides it)",
            )
    return unreadable(Path(f"/proc/{pid}/{name}"), error)


def _remedy() -> str:
    if os.geteuid() == 0:
        return (
            "root is not enough here: a container without CAP_SYS_PTRACE, or a security module, "
            "forbids it"
        )
    return NO_PERMISSION_HINT


def _owner(pid: int, root: Path) -> str:
    """ " (the process belongs to NAME)", or nothing when that is not the reason or unknown."""
    try:
        owner = proc_dir(pid, root).stat().st_uid
    except OSError:
        return ""
    return "" if owner == os.geteuid() else f" (the process belongs to {_user_name(owner)})"


def _user_name(uid: int) -> str:
    import pwd  # only when something is refused

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
