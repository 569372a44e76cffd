"""Reader of the shim's status page: what the mirror did, in the shim's own count.

The page is written by another process, so that nothing in it is trusted before it was checked.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from numamirror_cli.engine.status_layout import (
    BUFFER_KINDS,
    MAGIC,
    MAX_BUFFERS,
    MAX_COPIES,
    MAX_THREADS,
    NAME,
    ROLES,
    STATES,
    VERSION,
    CopyLayout,
    GroupLayout,
    StatusLayout,
    ThreadLayout,
)
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.figures import counted

# What /proc/PID/fd shows of a file that O_TMPFILE made.
_UNNAMED = re.compile(r".*/#\d+")

# A writer holds the seqlock for microseconds, unless it loses its CPU meanwhile; one that died
# while writing holds it for ever.
_READ_ATTEMPTS = 1000
_RETRY_SECONDS = 0.001

_START_AGAIN = "start the program again with `numamirror run`, then inspect it"


@dataclass(frozen=True)
class Copy:
    """What the CPUs of one node, or of one socket, read.

    node: kernel id, the first one when the copy spans several; nodes: all of them, "0", "0,1" or
    "0-11".
    role: "primary", "replica", "shard" or "part" (of an interleaved copy).
    bytes: GEMM weight bytes that its readers find in it.
    sampled_pages, sampled_local: pages asked of the kernel after the build, and those of them on
    `nodes` (rehearsal: on any node); sample_errno: why nothing was sampled, or 0.
    """

    node: int
    nodes: str
    role: str
    bytes: int
    build_ns: int
    build_threads: int
    sampled_pages: int
    sampled_local: int
    sample_errno: int

    @property
    def local_share(self) -> float:
        """Share of the sampled pages that are where they belong; 0 when none was sampled."""
        return self.sampled_local / self.sampled_pages if self.sampled_pages else 0.0


@dataclass(frozen=True)
class ThreadReads:
    """GEMM weight bytes that one thread, or all ended ones (tid 0), read since the start."""

    tid: int
    copy: int | None
    replica_bytes: int
    home_bytes: int
    other_bytes: int
    redirected: int
    not_redirected: int
    row_hits: int
    shard_bytes: int = 0

    @property
    def bytes(self) -> int:
        return self.replica_bytes + self.home_bytes + self.shard_bytes + self.other_bytes


@dataclass(frozen=True)
class EngineBuffer:
    """Memory of the engine without weights. kind: "compute" by the engine's word, "cache" where
    ops write to what it gave no word about. start: address in that process."""

    kind: str
    start: int
    bytes: int


@dataclass(frozen=True)
class TensorGroup:
    """Observed weights of one name but for its numbers ("blk.*.ffn_up.weight").

    bytes: of all its tensors. local_bytes, other_bytes: read since the start, from pages on the
    reader's node and from elsewhere.
    """

    name: str
    tensors: int
    bytes: int
    local_bytes: int
    other_bytes: int


@dataclass(frozen=True)
class MirrorStatus:
    """The status page at one moment. Amounts are bytes of distinct GEMM weights.

    state: one of STATES; reason: why not "mirrored", a phrase or "". rehearsal: 0, or the number
    of pretend nodes. home: node of the primary, None when unknown. engine: path of the library
    whose seams fire, "" before an engine computes. built_unix_ns: end of the last build, 0 before.
    token_bytes: what one token reads, of experts those that are used; token_mirrored_bytes: of
    those, from mirrored weights. uncounted_threads: those that computed and whose reads are in no
    figure.
    """

    pid: int
    state: str
    reason: str
    engine: str
    rehearsal: int
    home: int | None
    gemm_tensors: int
    gemm_bytes: int
    mirrored_bytes: int
    small_bytes: int
    refused_bytes: int
    arena_bytes: int
    built_unix_ns: int
    copies: tuple[Copy, ...]
    threads: tuple[ThreadReads, ...]
    retired: tuple[ThreadReads, ...]
    sharded_bytes: int = 0
    observed_bytes: int = 0
    placement_unix_ns: int = 0
    decode_graphs: int = 0
    decode_bytes: int = 0
    upload_replica_bytes: int = 0
    upload_primary_bytes: int = 0
    token_bytes: int = 0
    token_mirrored_bytes: int = 0
    buffers: tuple[EngineBuffer, ...] = ()
    interleaved_bytes: int = 0
    groups: tuple[TensorGroup, ...] = ()
    uncounted_threads: int = 0

    @property
    def coverage(self) -> float:
        """Mirrored GEMM weight bytes / all GEMM weight bytes; 0 before an engine computed."""
        return self.mirrored_bytes / self.gemm_bytes if self.gemm_bytes else 0.0

    @property
    def coverage_read(self) -> float | None:
        """Mirrored share of the bytes that one token reads; None before an engine computed."""
        return self.token_mirrored_bytes / self.token_bytes if self.token_bytes else None

    @property
    def reads(self) -> tuple[ThreadReads, ...]:
        """All reads: those that living threads book now, and the sums of what was before."""
        return (*self.threads, *self.retired)

    @property
    def read_bytes(self) -> int:
        """GEMM weight bytes read since the start."""
        return sum(reads.bytes for reads in self.reads)

    @property
    def locality(self) -> float | None:
        """GEMM weight bytes read from the reader's own node / all read; None before any read.

        A copy counts as far as its sample found its pages in place: an unsampled one not at all.
        Of sharded rows the shim books only what it found on the reader's node.
        """
        if not self.read_bytes:
            return None
        return sum(map(self._local_bytes, self.reads)) / self.read_bytes

    def _local_bytes(self, reads: ThreadReads) -> float:
        if reads.copy is None or reads.copy >= len(self.copies):
            return 0.0
        from_copies = reads.replica_bytes + reads.home_bytes
        return from_copies * self.copies[reads.copy].local_share + reads.shard_bytes

    @property
    def redirected(self) -> int:
        """Ops that were sent to a copy."""
        return sum(reads.redirected for reads in self.reads)

    @property
    def not_redirected(self) -> int:
        """MUL_MAT and MUL_MAT_ID ops on weights that were not."""
        return sum(reads.not_redirected for reads in self.reads)


def find_status_page(pid: int, root: Path = Path("/")) -> Path | None:
    """The status page among a process's descriptors, None when it has none.

    It is a memfd of that name or, where memfd_create is refused, an unnamed file of /dev/shm.
    Raises PermissionError and FileNotFoundError as /proc does.
    """
    for link in sorted((root / "proc" / str(pid) / "fd").iterdir()):
        try:
            target = str(link.readlink()).removesuffix(" (deleted)")
            if target == f"/memfd:{NAME}" or (_UNNAMED.fullmatch(target) and _has_mark(link)):
                return link
        except OSError:  # closed meanwhile
            continue
    return None


def _has_mark(page: Path) -> bool:
    descriptor = os.open(page, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, len(MAGIC), 0) == MAGIC
    finally:
        os.close(descriptor)


def read_mirror_status(pid: int, root: Path = Path("/")) -> MirrorStatus | None:
    """The status page of a process, None when it has none (the shim is not in it).

    A page that it only holds for another one, as the launcher does, or a child after fork(2), is
    not its own. Raises NumaMirrorError for a page that cannot be read or believed; PermissionError
    and FileNotFoundError as /proc does.
    """
    page = find_status_page(pid, root)
    if page is None:
        return None
    descriptor = os.open(page, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = read_status(descriptor)
    finally:
        os.close(descriptor)
    return status if status.pid in _pids_of(pid, root) else None


def _pids_of(pid: int, root: Path) -> frozenset[int]:
    """What a process is called here, and in the pid namespaces inside (proc(5), NSpid)."""
    status = (root / "proc" / str(pid) / "status").read_text(errors="replace")
    names = (line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
    return frozenset({pid, *(int(name) for name in next(names, []))})


def read_status(descriptor: int) -> MirrorStatus:
    """Read the page from an open descriptor, whose offset stays where it is.

    Raises NumaMirrorError when the page is no status page, is of another version, or was left
    half-written by a writer that died.
    """
    return _check(_consistent(descriptor))


def _consistent(descriptor: int) -> StatusLayout:
    """A copy during which the seqlock stood still on an even number."""
    for _ in range(_READ_ATTEMPTS):
        page = _read_page(descriptor)
        if page.seq % 2 == 0 and page.seq == _read_seq(descriptor):
            return page
        time.sleep(_RETRY_SECONDS)
    raise NumaMirrorError(
        "the shim's status page was left half-written: its writer is gone", hint=_START_AGAIN
    )


def _read_page(descriptor: int) -> StatusLayout:
    # The lock first: what the kernel copies in one go may be copied in any order.
    seq = _read_seq(descriptor)
    raw = _read_bytes(descriptor, ctypes.sizeof(StatusLayout), 0)
    page = StatusLayout.from_buffer_copy(raw)
    page.seq = seq
    return page


def _read_seq(descriptor: int) -> int:
    return int.from_bytes(_read_bytes(descriptor, 4, StatusLayout.seq.offset), sys.byteorder)


def _read_bytes(descriptor: int, count: int, offset: int) -> bytes:
    try:
        raw = os.pread(descriptor, count, offset)
    except OSError as error:
        message = f"the shim's status page cannot be read: {error.strerror}"
        raise NumaMirrorError(message, hint=_START_AGAIN) from None
    if len(raw) < count:
        there = counted(offset + len(raw), "byte")
        message = f"the shim's status page ends after {there}"
        raise NumaMirrorError(message, hint=_START_AGAIN)
    return raw


def _check(page: StatusLayout) -> MirrorStatus:
    if bytes(page)[: len(MAGIC)] != MAGIC:
        message = "the shim's status page does not begin with its mark"
        raise NumaMirrorError(message, hint=_START_AGAIN)
    if page.version != VERSION or page.bytes != ctypes.sizeof(StatusLayout):
        raise NumaMirrorError(
            f"the shim's status page is of version {page.version}, {page.bytes} bytes; "
            f"this program reads version {VERSION}",
            hint="use `numamirror` and its shim from one installation",
        )
    for what, value, limit in (
        ("state", page.state, len(STATES) - 1),
        ("copies", page.copies, MAX_COPIES),
        ("threads", page.threads, MAX_THREADS),
        ("buffers", page.buffers, MAX_BUFFERS),
    ):
        if value > limit:
            message = f"the shim's status page says {what} = {value}"
            raise NumaMirrorError(message, hint=_START_AGAIN)
    return _status(page)


def _status(page: StatusLayout) -> MirrorStatus:
    return MirrorStatus(
        pid=page.pid,
        state=STATES[page.state],
        reason=_text(page.reason),
        engine=_text(page.engine),
        rehearsal=page.rehearsal,
        home=page.home if page.home >= 0 else None,
        gemm_tensors=page.gemm_tensors,
        gemm_bytes=page.gemm_bytes,
        mirrored_bytes=page.mirrored_bytes,
        small_bytes=page.small_bytes,
        refused_bytes=page.refused_bytes,
        arena_bytes=page.arena_bytes,
        built_unix_ns=page.built_unix_ns,
        copies=tuple(_copy(copy) for copy in page.copy[: page.copies]),
        threads=tuple(_reads(entry) for entry in page.thread[: page.threads] if entry.tid),
        retired=tuple(_retired(page)),
        sharded_bytes=page.sharded_bytes,
        observed_bytes=page.observed_bytes,
        placement_unix_ns=page.placement_unix_ns,
        decode_graphs=page.decode_graphs,
        decode_bytes=page.decode_bytes,
        upload_replica_bytes=page.upload_replica_bytes,
        upload_primary_bytes=page.upload_primary_bytes,
        token_bytes=page.token_bytes,
        token_mirrored_bytes=page.token_mirrored_bytes,
        buffers=tuple(_buffers(page)),
        interleaved_bytes=page.interleaved_bytes,
        groups=tuple(_group(group) for group in page.group if group.name),
        uncounted_threads=page.uncounted,
    )


def _buffers(page: StatusLayout) -> Iterator[EngineBuffer]:
    for entry in page.buffer[: page.buffers]:
        if 0 < entry.kind < len(BUFFER_KINDS) and entry.start + entry.bytes < 1 << 64:
            yield EngineBuffer(BUFFER_KINDS[entry.kind], entry.start, entry.bytes)


def _copy(copy: CopyLayout) -> Copy:
    return Copy(
        node=copy.node,
        nodes=_text(copy.nodes) or str(copy.node),
        role=ROLES[copy.role] if copy.role < len(ROLES) else f"role-{copy.role}",
        bytes=copy.bytes,
        build_ns=copy.build_ns,
        build_threads=copy.build_threads,
        sampled_pages=copy.sampled_pages,
        sampled_local=min(copy.sampled_local, copy.sampled_pages),
        sample_errno=copy.sample_errno,
    )


def _group(group: GroupLayout) -> TensorGroup:
    return TensorGroup(
        name=_text(group.name),
        tensors=group.tensors,
        bytes=group.bytes,
        local_bytes=group.local_bytes,
        other_bytes=group.other_bytes,
    )


def _retired(page: StatusLayout) -> Iterator[ThreadReads]:
    """The sums by copy, the last one without; entries that nobody wrote to are left out."""
    for index, entry in enumerate(page.retired):
        reads = replace(_reads(entry), copy=index if index < MAX_COPIES else None)
        if reads.redirected or reads.not_redirected:
            yield reads


def _reads(entry: ThreadLayout) -> ThreadReads:
    return ThreadReads(
        tid=entry.tid,
        copy=entry.copy if 0 <= entry.copy < MAX_COPIES else None,
        replica_bytes=entry.replica_bytes,
        home_bytes=entry.home_bytes,
        other_bytes=entry.other_bytes,
        redirected=entry.redirected,
        not_redirected=entry.not_redirected,
        row_hits=entry.row_hits,
        shard_bytes=entry.shard_bytes,
    )


def _text(raw: bytes) -> str:
    """A path or phrase of the page; whoever shows it makes it printable."""
    return raw.decode(errors="replace")
