"""Writing a file that the user named: whole or not at all, and never in place of a device."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

# A file that may be written where no other may take its place: in a directory that is not ours,
# or mounted by itself, as into a container.
_STAYS = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS)


def is_stream(path: Path) -> bool:
    """Whether what is written there flows on, and can't be replaced: a pipe, a device, or a file
    that is open already, as /dev/stdout may be and what `>` made. Raises OSError."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(there.st_mode) or _is_open(there)


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace the file's content in one step, so that no reader ever sees half of it.

    To a stream it is appended, and a file whose place no other can take is written as it stands.
    Raises OSError.
    """
    data = content.encode() if isinstance(content, str) else content
    if is_stream(path):
        _append(path, data)
        return
    real = path.resolve()
    try:
        _replace(real, data)
    except OSError as error:
        if error.errno not in _STAYS or not real.exists():
            raise
        real.write_bytes(data)


def _is_open(file: os.stat_result) -> bool:
    for descriptor in _descriptors():
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), file):
                return True
    return False


def _descriptors() -> list[int]:
    try:
        return [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
    except OSError:
        return [0, 1, 2]


def _append(path: Path, data: bytes) -> None:
    # A named pipe that nobody reads must not keep us waiting: opened so, it is an error (fifo(7)).
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "ab") as stream:
        os.set_blocking(descriptor, True)
        stream.write(data)


def _replace(real: Path, data: bytes) -> None:
    temporary = real.with_name(f".{real.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        with temporary.open("xb") as stream:
            stream.write(data)
        if real.exists():
            temporary.chmod(real.stat().st_mode & 0o777)
        temporary.replace(real)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
