"""Starts a program under a real seccomp filter, as a container's runtime does.

    refuse.py [CALL=EPERM|ENOSYS|PRETEND|KILL]... -- COMMAND...

Each CALL fails with that errno, succeeds without doing anything, or kills the process. The filter
is the kernel's (seccomp(2)): it cannot be taken off again, and all that COMMAND starts is under it
too.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterable, Mapping

# The NUMA and placement calls that launcher and shim make, and how shim and launcher talk.
_X86_64 = {
    "socket": 41,
    "sched_setaffinity": 203,
    "mbind": 237,
    "set_mempolicy": 238,
    "get_mempolicy": 239,
    "move_pages": 279,
    "memfd_create": 319,
}
_GENERIC = {
    "sched_setaffinity": 122,
    "socket": 198,
    "mbind": 235,
    "get_mempolicy": 236,
    "set_mempolicy": 237,
    "move_pages": 239,
    "memfd_create": 279,
}
# How files and their page cache are read, and what the launcher asks of itself.
_X86_64_ASKING = {
    "pread64": 17,
    "mincore": 27,
    "sched_getaffinity": 204,
    "fadvise64": 221,
    "preadv2": 327,
}
_GENERIC_ASKING = {
    "pread64": 67,
    "sched_getaffinity": 123,
    "fadvise64": 223,
    "mincore": 232,
    "preadv2": 286,
}
# How processes and threads are started.
_X86_64_STARTING = {"clone": 56, "fork": 57, "vfork": 58, "clone3": 435}
_GENERIC_STARTING = {"clone": 220, "clone3": 435}
# AUDIT_ARCH_* of linux/audit.h; the numbers of asm/unistd_64.h and asm-generic/unistd.h; and
# seccomp(2)'s own.
_MACHINES = {
    "x86_64": (0xC000003E, _X86_64 | _X86_64_ASKING | _X86_64_STARTING, 317),
    "aarch64": (0xC00000B7, _GENERIC | _GENERIC_ASKING | _GENERIC_STARTING, 277),
    "riscv64": (0xC00000F3, _GENERIC | _GENERIC_ASKING | _GENERIC_STARTING, 277),
}
CALLS = tuple(_X86_64)

_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER, _FLAG_TSYNC = 1, 1
# linux/bpf_common.h: load a word of struct seccomp_data; jump if equal; return.
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ARCHITECTURE_AT, _NUMBER_AT = 4, 0

ALLOW, KILL_PROCESS = 0x7FFF0000, 0x80000000
_FAIL_WITH = 0x00050000

Program = list[tuple[int, int, int, int]]


def refuse(refusals: Mapping[str, str]) -> None:
    """From now on those system calls do that in this process: call -> errno, PRETEND or KILL.

    Raises OSError where the kernel takes no filter, KeyError for a call not known here.
    """
    numbers = _MACHINES[platform.machine()][1]
    answers = {numbers[name]: _answer(word) for name, word in refusals.items()}
    _install(_program(answers, otherwise=ALLOW))


def allow_only(numbers: Iterable[int]) -> None:
    """From now on any other system call kills this process. Raises OSError as `refuse`."""
    _install(_program(dict.fromkeys(numbers, ALLOW), otherwise=KILL_PROCESS))


def _answer(word: str) -> int:
    if word == "KILL":
        return KILL_PROCESS
    return _FAIL_WITH | (0 if word == "PRETEND" else int(getattr(errno, word)))


def _program(answers: Mapping[int, int], otherwise: int) -> Program:
    architecture = _MACHINES[platform.machine()][0]
    program: Program = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, ALLOW),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    for number, answer in answers.items():
        program += [(_JUMP_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, answer)]
    return [*program, (_RETURN, 0, 0, otherwise)]


def _install(program: Program) -> None:
    """In all threads of this process (TSYNC)."""
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in program))
    fprog = struct.pack("HxxxxxxP", len(program), ctypes.addressof(filters))
    libc = ctypes.CDLL(None, use_errno=True)
    number = ctypes.c_long(_MACHINES[platform.machine()][2])
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or libc.syscall(
        number, ctypes.c_long(_SET_MODE_FILTER), ctypes.c_long(_FLAG_TSYNC), fprog
    ):
        raise OSError(ctypes.get_errno(), "no seccomp filter can be installed")


def main() -> None:
    split = sys.argv.index("--")
    refuse(dict(word.split("=") for word in sys.argv[1:split]))
    command = sys.argv[split + 1 :]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
