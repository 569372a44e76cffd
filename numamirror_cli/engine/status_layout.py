"""How the shim's status page is laid out: native/include/numamirror_status.h, in ctypes.

A test compiles the header and compares every offset and size with what stands here.
"""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

NAME = "numamirror-status"
MAGIC = b"NUMAMIR\0"
VERSION = 1
MARK = b"NumaMirror status page\0\0"
MAX_COPIES = 64
MAX_THREADS = 1024
MAX_BUFFERS = 64
MAX_GROUPS = 32

STATES = (
    "waiting",
    "inert",
    "building",
    "mirrored",
    "partial",
    "off",
    "freed",
    "sharded",
    "observed",
    "interleaved",
)
BUFFER_KINDS = ("allotted", "compute", "cache")
ROLES = ("unused", "primary", "replica", "shard", "part")


class CopyLayout(ctypes.Structure):
    """struct nm_status_copy."""

    _fields_ = (
        ("node", ctypes.c_int32),
        ("role", ctypes.c_uint32),
        ("bytes", ctypes.c_uint64),
        ("build_ns", ctypes.c_uint64),
        ("sampled_pages", ctypes.c_uint32),
        ("sampled_local", ctypes.c_uint32),
        ("sample_errno", ctypes.c_int32),
        ("build_threads", ctypes.c_uint32),
        ("nodes", ctypes.c_char * 24),
    )


class ThreadLayout(ctypes.Structure):
    """struct nm_status_thread."""

    _fields_ = (
        ("tid", ctypes.c_uint32),
        ("copy", ctypes.c_int32),
        ("replica_bytes", ctypes.c_uint64),
        ("home_bytes", ctypes.c_uint64),
        ("other_bytes", ctypes.c_uint64),
        ("redirected", ctypes.c_uint64),
        ("not_redirected", ctypes.c_uint64),
        ("row_hits", ctypes.c_uint64),
        ("shard_bytes", ctypes.c_uint64),
    )


class BufferLayout(ctypes.Structure):
    """struct nm_status_buffer."""

    _fields_ = (
        ("start", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("kind", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
    )


class GroupLayout(ctypes.Structure):
    """struct nm_status_group."""

    _fields_ = (
        ("name", ctypes.c_char * 64),
        ("tensors", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("local_bytes", ctypes.c_uint64),
        ("other_bytes", ctypes.c_uint64),
    )


class StatusLayout(ctypes.Structure):
    """struct nm_status."""

    _fields_ = (
        ("magic", ctypes.c_char * 8),
        ("version", ctypes.c_uint32),
        ("bytes", ctypes.c_uint32),
        ("seq", ctypes.c_uint32),
        ("pid", ctypes.c_uint32),
        ("state", ctypes.c_uint32),
        ("rehearsal", ctypes.c_uint32),
        ("home", ctypes.c_int32),
        ("copies", ctypes.c_uint32),
        ("threads", ctypes.c_uint32),
        ("gemm_tensors", ctypes.c_uint32),
        ("gemm_bytes", ctypes.c_uint64),
        ("mirrored_bytes", ctypes.c_uint64),
        ("small_bytes", ctypes.c_uint64),
        ("refused_bytes", ctypes.c_uint64),
        ("sharded_bytes", ctypes.c_uint64),
        ("observed_bytes", ctypes.c_uint64),
        ("placement_unix_ns", ctypes.c_uint64),
        ("decode_graphs", ctypes.c_uint64),
        ("decode_bytes", ctypes.c_uint64),
        ("upload_replica_bytes", ctypes.c_uint64),
        ("upload_primary_bytes", ctypes.c_uint64),
        ("arena_bytes", ctypes.c_uint64),
        ("built_unix_ns", ctypes.c_uint64),
        ("token_bytes", ctypes.c_uint64),
        ("token_mirrored_bytes", ctypes.c_uint64),
        ("interleaved_bytes", ctypes.c_uint64),
        ("engine", ctypes.c_char * 256),
        ("reason", ctypes.c_char * 256),
        ("copy", CopyLayout * MAX_COPIES),
        ("apart", ctypes.c_uint64 * 2),
        ("retired", ThreadLayout * (MAX_COPIES + 1)),
        ("thread", ThreadLayout * MAX_THREADS),
        ("buffers", ctypes.c_uint32),
        ("uncounted", ctypes.c_uint32),
        ("buffer", BufferLayout * MAX_BUFFERS),
        ("group", GroupLayout * MAX_GROUPS),
    )


def layout_in(shim: Path) -> tuple[int, int] | None:
    """Version and bytes of the status page that a shim writes, as its file tells; None when it
    does not. Raises OSError."""
    _, mark, behind = shim.read_bytes().partition(MARK)
    return struct.unpack_from("=II", behind) if mark and len(behind) >= 8 else None
