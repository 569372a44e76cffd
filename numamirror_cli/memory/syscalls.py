"""The NUMA system calls, made raw: glibc has no wrappers for them and libnuma may be absent."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from collections.abc import Iterable

# asm/unistd_64.h for x86_64; asm-generic/unistd.h for aarch64 and riscv64.
_GENERIC = {
    "mbind": 235,
    "get_mempolicy": 236,
    "set_mempolicy": 237,
    "migrate_pages": 238,
    "move_pages": 239,
}
_X86_64 = {
    "mbind": 237,
    "set_mempolicy": 238,
    "get_mempolicy": 239,
    "migrate_pages": 256,
    "move_pages": 279,
}
_NUMBERS = {"x86_64": _X86_64, "aarch64": _GENERIC, "riscv64": _GENERIC}

# Bits in every node mask we pass. No kernel is built for more nodes (CONFIG_NODES_SHIFT <= 10).
MAX_NODES = 1024
_WORD_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)
_NodeMask = ctypes.c_ulong * (MAX_NODES // _WORD_BITS)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def call(name: str, *arguments: object) -> int:
    """Make the NUMA system call of that name and return what it returns.

    Integers are passed as longs, ctypes arrays and references as pointers, None as NULL. Raises
    OSError with the kernel's errno and the call's name; ENOSYS on an architecture whose numbers
    are not known here.
    """
    number = _NUMBERS.get(platform.machine(), {}).get(name)
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), name)
    ctypes.set_errno(0)
    passed = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result: int = _libc.syscall(ctypes.c_long(number), *passed)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return result


def node_mask(nodes: Iterable[int] = ()) -> ctypes.Array[ctypes.c_ulong]:
    """A mask of MAX_NODES bits with those nodes set. Raises ValueError for ids out of range."""
    mask = _NodeMask()
    for node in nodes:
        if not 0 <= node < MAX_NODES:
            raise ValueError(f"no such node id: {node}")
        mask[node // _WORD_BITS] |= 1 << node % _WORD_BITS
    return mask


def nodes_in(mask: ctypes.Array[ctypes.c_ulong]) -> frozenset[int]:
    """The node ids whose bits are set."""
    return frozenset(
        word * _WORD_BITS + bit
        for word, value in enumerate(mask)
        for bit in range(_WORD_BITS)
        if value >> bit & 1
    )


# The kernel reads one bit less than it is told (set_mempolicy(2), BUGS).
MASK_BITS = MAX_NODES + 1
