"""Writing the user's --json file: whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Replace the file's content in one step, so that no reader ever sees half of it.

    What is no regular file (a pipe, /dev/null) is written to as it is. Raises OSError.
    """
    real = path.resolve()
    if real.exists() and not real.is_file():
        real.write_text(text)
        return
    temporary = real.with_name(f".{real.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        with temporary.open("x") as stream:
            stream.write(text)
        if real.exists():
            temporary.chmod(real.stat().st_mode & 0o777)
        temporary.replace(real)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
