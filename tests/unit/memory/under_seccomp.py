"""Run Python code in a child under a real seccomp filter that turns named system calls down."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest

from tests.reliability.refuse import refuse


def deny(names: list[str], code: int) -> None:
    """From now on those system calls fail with that errno in this process (seccomp(2)).

    0: they succeed without doing anything, as in a sandbox that only looks like a kernel.
    """
    refuse(dict.fromkeys(names, errno.errorcode.get(code, "PRETEND")))


def run_denied(names: list[str], code: int, source: str) -> str:
    """What `source` prints in a child whose calls of those names fail with that errno."""
    prologue = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from tests.unit.memory.under_seccomp import deny\n"
        f"try: deny({names!r}, {code})\n"
        "except OSError as error: print('NO SECCOMP', error); sys.exit()\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", prologue + source], capture_output=True, text=True, timeout=300
    )
    assert child.returncode == 0, child.stderr
    if child.stdout.startswith("NO SECCOMP"):
        pytest.skip(f"this kernel installs no seccomp filter: {child.stdout.strip()}")
    return child.stdout.strip()


PRETEND, EPERM, ENOSYS, EINVAL = 0, errno.EPERM, errno.ENOSYS, errno.EINVAL
