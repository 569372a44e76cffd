"""Which node holds the page cache of a file, found without reading the file in.

mincore(2) tells which pages are in memory; those are then mapped here, which costs no I/O, and
move_pages(2) tells their nodes.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.errors import NumaMirrorError, unreadable
from numamirror_cli.memory.buffers import add_by_node
from numamirror_cli.memory.pages import PageSample, sample_nodes, spread_addresses

_PAGE = mmap.PAGESIZE
# Address space mapped at a time.
_WINDOW = 1 << 30
# Pages whose node is asked, over the whole file; a smaller file is asked page by page.
SAMPLE_PAGES = 65_536
_MADV_RANDOM, _MADV_POPULATE_READ = 1, 22

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
_libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
_libc.write.restype = ctypes.c_ssize_t
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


@dataclass(frozen=True)
class CacheState:
    """The page cache of one file, in bytes.

    cached: in memory. by_node: cached bytes per node, estimated from `sampled` pages, or counted
    where all of them were asked. device, inode: as /proc/PID/maps names the file.
    """

    path: Path
    bytes: int
    cached: int
    by_node: Mapping[int, int]
    sampled: int
    device: str
    inode: int

    @property
    def cached_share(self) -> float:
        return self.cached / self.bytes if self.bytes else 0.0


def read_cache_state(path: Path, tell: Callable[[int], None] = lambda _: None) -> CacheState:
    """Ask where the cached pages of a file lie. tell: called with bytes looked at so far.

    Raises NumaMirrorError when the file cannot be read, or when the kernel does not tell an
    ordinary user which pages of somebody else's file are cached (mincore(2), NOTES).
    """
    with opened(path) as descriptor:
        facts = os.fstat(descriptor)
        _may_ask(path, facts)
        # Addresses from 0 stand for offsets into the file here.
        wanted = spread_addresses(0, _whole_pages(facts.st_size), SAMPLE_PAGES, _PAGE)
        cached = 0
        sample = PageSample()
        for start in range(0, facts.st_size, _WINDOW):
            length = min(_WINDOW, facts.st_size - start)
            asked = [offset for offset in wanted if start <= offset < start + length]
            try:
                count, located = _look_at(descriptor, start, length, asked)
            except OSError as error:
                raise unreadable(path, error) from None
            cached += count * _PAGE
            sample = _together(sample, located)
            tell(start + length)
    cached = min(cached, facts.st_size)
    return CacheState(
        path=path,
        bytes=facts.st_size,
        cached=cached,
        by_node=_scaled(sample.by_node, cached),
        sampled=sample.located,
        device=f"{os.major(facts.st_dev):02x}:{os.minor(facts.st_dev):02x}",
        inode=facts.st_ino,
    )


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor of a regular file, for reading. Raises NumaMirrorError naming the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NumaMirrorError(f"{path}: not a regular file", hint="name the model's own file")
        yield descriptor
    finally:
        os.close(descriptor)


def _may_ask(path: Path, facts: os.stat_result) -> None:
    """For a file that one neither owns nor may write, mincore says "cached" of every page."""
    if os.geteuid() in (0, facts.st_uid) or os.access(path, os.W_OK):
        return
    raise NumaMirrorError(
        f"{path}: the kernel tells only its owner which of its pages are cached",
        hint="run as the owner of the file, or with sudo",
    )


def _whole_pages(count: int) -> int:
    return -(-count // _PAGE) * _PAGE


def _look_at(
    descriptor: int, start: int, length: int, offsets: Sequence[int]
) -> tuple[int, PageSample]:
    """Cached pages of one window, and the nodes of those of them that were asked for.

    Raises OSError, whose text is a phrase about the file.
    """
    with _mapped(descriptor, start, length) as address:
        resident = _resident(address, length)
        addresses = [
            address + offset - start
            for offset in offsets
            if resident[(offset - start) // _PAGE] and _map_in(address + offset - start)
        ]
        return resident.count(1), sample_nodes(0, addresses)


@contextmanager
def _mapped(descriptor: int, start: int, length: int) -> Iterator[int]:
    address = _libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, start)
    if address in (None, ctypes.c_void_p(-1).value):
        raise _error("cannot be mapped: {}")
    try:
        # No read-ahead, should a page be dropped between our question and our touch.
        _libc.madvise(address, length, _MADV_RANDOM)
        yield address
    finally:
        _libc.munmap(address, length)


def _resident(address: int, length: int) -> bytes:
    """A byte per page, 1 where it is in memory."""
    pages = (ctypes.c_ubyte * (_whole_pages(length) // _PAGE))()
    if _libc.mincore(address, length, pages) != 0:
        raise _error("which of its pages are cached could not be asked (mincore: {})")
    return bytes(pages)


def _error(phrase: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, phrase.format(os.strerror(code)))


def _map_in(address: int) -> bool:
    """Have a cached page mapped; False when it is gone, as when the file was cut short."""
    if _libc.madvise(address, _PAGE, _MADV_POPULATE_READ) == 0:
        return True
    if ctypes.get_errno() != errno.EINVAL:
        return False
    return _touch(address)


def _touch(address: int) -> bool:
    """Before Linux 5.14 there is no such advice. The kernel touches the page for us: behind the end
    of a file that was cut short it says EFAULT, where we would get SIGBUS."""
    out, into = _pipe()
    if _libc.write(into, address, 1) != 1:
        return False
    os.read(out, 1)
    return True


@functools.cache
def _pipe() -> tuple[int, int]:
    return os.pipe()


def _together(first: PageSample, second: PageSample) -> PageSample:
    by_node = add_by_node([first.by_node, second.by_node])
    return PageSample(by_node, first.absent + second.absent)


def _scaled(sampled: Mapping[int, int], total: int) -> dict[int, int]:
    """`total` bytes, divided as the sampled pages are."""
    pages = sum(sampled.values())
    return {node: round(total * count / pages) for node, count in sampled.items()}
