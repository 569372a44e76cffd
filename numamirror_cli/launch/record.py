"""Writing the user's --json file: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Replace the file's content in one step, so that no reader ever sees half of it.

    What is no regular file (a pipe, /dev/null) is written to as it is. Raises OSError.
    """
    real = path.resolve()
    if real.exists() and not real.is_file():
        real.write_text(text)
        return
    descriptor, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(text)
        temporary.chmod(_mode_for(real))
        temporary.replace(real)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _mode_for(path: Path) -> int:
    """The mode that the file has, or that open(2) would give a new one."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
