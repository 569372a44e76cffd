"""The one error class of NumaMirror. It is raised anywhere and shown once, in cli.py."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from numamirror_cli.quoting import shell_word


class NumaMirrorError(Exception):
    """A failure of ours that the user can act on.

    message: what failed and why, one line, naming the input.
    listed: what the message announces, a line each.
    hint: the remedy, one line.
    exit_code: 1 for a diagnostic that could not be made, 2 for bad usage,
        125/126/127 for `run` as in coreutils' timeout(1) and env(1).
    """

    def __init__(
        self,
        message: str,
        *,
        listed: Sequence[str] = (),
        hint: str | None = None,
        exit_code: int = 1,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.listed = tuple(listed)
        self.hint = hint
        self.exit_code = exit_code


# Limits under which we lack what we need, and where they are set.
_LIMITS = {
    errno.EMFILE: "see ulimit -n",
    errno.EAGAIN: "see ulimit -u and the cgroup's pids.max",
    errno.ENOMEM: "see ulimit -v and the cgroup's memory.max",
}


def unreadable(path: Path, error: OSError, *, exit_code: int = 1) -> NumaMirrorError:
    """A file that could not be read, or looked at, with what to do about it."""
    return NumaMirrorError(
        f"{path}: {error.strerror}", hint=_remedy(path, error), exit_code=exit_code
    )


def unwritable(path: Path, error: OSError, what: str = "", exit_code: int = 1) -> NumaMirrorError:
    """The same of one that could not be written. what: the message, where it is not the usual."""
    directory = shell_word(str(path.parent))
    remedies = {
        errno.ENOENT: f"mkdir -p {directory} makes its directory",
        errno.ENOSPC: f"df -h {directory} shows what is full; name a file elsewhere",
        errno.EROFS: "name a file elsewhere: nothing can be written there",
    }
    return NumaMirrorError(
        what or f"cannot write {path}: {error.strerror or error}",
        hint=remedies.get(error.errno or 0) or _remedy(path, error),
        exit_code=exit_code,
    )


def _remedy(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return f"ls -l {shell_word(str(path.parent))} shows what is there"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"namei -l {shell_word(str(path))} shows who may reach it"
    if error.errno == errno.EISDIR:
        return "name a file in it"
    if error.errno == errno.EIO:
        return "dmesg shows what its disk reported"
    return _LIMITS.get(error.errno or 0, "name another file")


def described(fault: Exception) -> str:
    """An exception that nobody expected, in one line: what the machine refused, or our mistake."""
    if not isinstance(fault, OSError) or fault.strerror is None:
        return f"a mistake of ours, please report it ({type(fault).__name__}: {fault})"
    about = f"{fault.filename}: " if fault.filename else ""
    where = f" ({_LIMITS[fault.errno]})" if fault.errno in _LIMITS else ""
    return f"{about}{fault.strerror}{where}"
