"""Page cache on its way through a pipe that nobody reads: no page of it can be moved or dropped.

    in_flight.py FILE MIB

Run inside the guest: keeps that much of the file there until it is killed. The kernel counts such
pages as page cache that could be dropped.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20
# A pipe's slots are one allocation of the kernel's.
MOST_PER_PIPE = 16 * MIB


def splice_into_pipe(path: Path, offset: int, size: int) -> list[int]:
    """Puts `size` bytes of the file into a new pipe, whose two ends it returns (splice(2))."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, size + 16 * PAGE)
    with path.open("rb") as file:
        file.seek(offset)
        while size > 0:
            size -= os.splice(file.fileno(), writer, size)
    return [reader, writer]


def main(path: Path, size: int) -> None:
    ends = []
    for offset in range(0, size, MOST_PER_PIPE):
        ends += splice_into_pipe(path, offset, min(MOST_PER_PIPE, size - offset))
    print("up", flush=True)
    signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) * MIB)
