"""Which file a command line starts: the search along PATH, as execvp(3) and env(1) do it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from numamirror_cli.engine.directories import is_directory
from numamirror_cli.errors import NumaMirrorError, unreadable
from numamirror_cli.quoting import shell_word

# confstr(_CS_PATH): where execvp(3) looks when PATH is unset.
_DEFAULT_PATH = "/bin:/usr/bin"


def find_program(name: str, environ: Mapping[str, str]) -> Path:
    """The file that exec would start for that name.

    A name with a slash is the file itself; others are searched along PATH, where an empty entry
    is the current directory. Raises NumaMirrorError with exit code 127 when there is none and 126
    when there is one that cannot be executed.
    """
    if not name:
        hint = "name one, as in: llama-server -m model.gguf"
        raise NumaMirrorError("the program's name is empty", hint=hint, exit_code=127)
    if "/" in name:
        return _executable(Path(name))
    found = [path for path in _along_path(name, environ) if _is_there(path)]
    for path in found:
        if os.access(path, os.X_OK):
            return path
    if found:
        return _executable(found[0])
    raise _not_found(name, "it is in no directory of PATH; name it with its path")


def _not_found(name: str, hint: str) -> NumaMirrorError:
    program, *arguments = name.split() or [name]
    if arguments:
        hint = f"leave out the quotes if {program} is the program; sh -c '...' runs a pipeline"
    return NumaMirrorError(f"{name}: program not found", hint=hint, exit_code=127)


def _along_path(name: str, environ: Mapping[str, str]) -> Iterator[Path]:
    for directory in environ.get("PATH", _DEFAULT_PATH).split(":"):
        yield Path(directory or ".") / name


def _is_there(path: Path) -> bool:
    """A file of any kind but a directory, where we may look."""
    try:
        return not stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        return False


def _executable(path: Path) -> Path:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        where = f"ls -l {shell_word(str(path.parent))} shows what is there"
        raise _not_found(str(path), where) from None
    except OSError as error:
        raise unreadable(path, error, exit_code=126) from None
    if is_directory(path):
        raise NumaMirrorError(
            f"{path}: is a directory, not a program", hint="name a file in it", exit_code=126
        )
    if not os.access(path, os.X_OK):
        raise NumaMirrorError(
            f"{path}: not executable", hint=f"chmod +x {shell_word(str(path))}", exit_code=126
        )
    return path
