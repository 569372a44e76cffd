"""Run Python code in a child under a real seccomp filter that turns named system calls down."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import subprocess
import sys

import pytest

from numamirror_cli.memory import syscalls

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "riscv64": 0xC00000F3}
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _MODE_FILTER = 22, 38, 2
_RET_ALLOW, _RET_ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06


def deny(names: list[str], code: int) -> None:
    """From now on those NUMA system calls fail with that errno in this process (seccomp(2))."""
    machine = platform.machine()
    numbers = [syscalls._NUMBERS[machine][name] for name in names]
    program = [(_LOAD, 0, 0, 4), (_JUMP_IF_EQUAL, 1, 0, _AUDIT_ARCH[machine])]
    program += [(_RETURN, 0, 0, _RET_ALLOW), (_LOAD, 0, 0, 0)]
    for number in numbers:
        program += [(_JUMP_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _RET_ERRNO | code)]
    program.append((_RETURN, 0, 0, _RET_ALLOW))
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in program))
    fprog = struct.pack("HxxxxxxP", len(program), ctypes.addressof(filters))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, fprog) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_SECCOMP)")


def run_denied(names: list[str], code: int, source: str) -> str:
    """What `source` prints in a child whose calls of those names fail with that errno."""
    prologue = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from tests.unit.memory.under_seccomp import deny\n"
        f"try: deny({names!r}, {code})\n"
        "except OSError as error: print('NO SECCOMP', error); sys.exit()\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", prologue + source], capture_output=True, text=True, timeout=60
    )
    assert child.returncode == 0, child.stderr
    if child.stdout.startswith("NO SECCOMP"):
        pytest.skip(f"this kernel installs no seccomp filter: {child.stdout.strip()}")
    return child.stdout.strip()


EPERM, ENOSYS, EINVAL = errno.EPERM, errno.ENOSYS, errno.EINVAL
