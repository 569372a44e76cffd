"""Dropping a file from the page cache, and reading it in on a node of one's choice."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.memory.page_cache import opened
from numamirror_cli.memory.policy import Policy, current_policy, set_policy

# What is read at a time: large, so that the kernel reads ahead at the disk's own speed.
_CHUNK = 8 << 20


def evict(path: Path) -> None:
    """Drop a file's clean pages that nobody has mapped; no privilege is needed.

    Whether they went must be asked afterwards: the kernel takes it as advice
    (posix_fadvise(2), POSIX_FADV_DONTNEED). Raises NumaMirrorError naming the file.
    """
    with opened(path) as descriptor:
        try:
            # Dirty pages are passed over: write them out first. A reader may do that, too.
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError as error:
            raise NumaMirrorError(
                f"{path}: cannot be dropped: {error.strerror}",
                hint="dmesg shows what its disk reported; sync writes out what is left",
            ) from None


def warm(path: Path, policy: Policy, tell: Callable[[int], None] = lambda _: None) -> None:
    """Read a file into the page cache; pages that are not there yet go where the policy says.

    The calling thread's policy is put back at the end. tell: called with the bytes read so far.
    Raises NumaMirrorError naming the file, and PolicyRefused.
    """
    before = current_policy()
    set_policy(policy)
    try:
        with opened(path) as descriptor:
            _read_through(descriptor, path, tell)
    finally:
        set_policy(before)


def _read_through(descriptor: int, path: Path, tell: Callable[[int], None]) -> None:
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
    buffer = bytearray(_CHUNK)
    done = 0
    while True:
        try:
            count = os.preadv(descriptor, [buffer], done)
        except OSError as error:
            raise NumaMirrorError(
                f"{path}: {error.strerror} at byte {done}",
                hint="dmesg shows what its disk reported; the file may have to be had anew",
            ) from None
        if not count:
            return
        done += count
        tell(done)
