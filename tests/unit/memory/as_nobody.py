"""Run a function as an ordinary user: what root may read proves nothing about permissions."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

NOBODY = 65534


def as_nobody(function: Callable[[], object]) -> str:
    """What `function` returns, or the error that it raises, as text, in a child owned by nobody."""
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            try:
                said = str(function())
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
            os.write(write_end, said.encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said
