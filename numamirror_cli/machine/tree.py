"""The one way into /sys and /proc: files below a root, and a note for each that is unreadable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from numamirror_cli.quoting import printable

Value = TypeVar("Value")


class Tree:
    """Files below `root`, read leniently; `notes` collects what could not be used and why.

    Paths are given without a leading slash ("sys/devices/system/node") and noted with one, as they
    are called on the machine itself.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.notes: list[str] = []

    @property
    def live(self) -> bool:
        """The root is the running system, not a dump."""
        return self.root == Path("/")

    def text(self, path: str) -> str | None:
        """The file's text without the NULs and white space that some kernels append.

        None when there is no such file; None with a note when it cannot be read.
        """
        try:
            data = (self.root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.note(path, error.strerror or str(error))
            return None
        return data.decode(errors="replace").strip("\0 \t\r\n")

    def parsed(self, path: str, parser: Callable[[str], Value]) -> Value | None:
        """The file's text through `parser`; None with a note when that raises ValueError."""
        text = self.text(path)
        if text is None:
            return None
        try:
            return parser(text)
        except ValueError as error:
            self.note(path, str(error))
            return None

    def names(self, path: str) -> list[str]:
        """What the directory holds, sorted; empty when there is none, or with a note."""
        try:
            return sorted(entry.name for entry in (self.root / path).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.note(path, error.strerror or str(error))
            return []

    def link_name(self, path: str) -> str | None:
        """The last part of a symbolic link's target ("vfio-pci" for a driver), None without one."""
        try:
            return (self.root / path).readlink().name
        except OSError:
            return None

    def note(self, path: str, problem: str) -> None:
        """Remember what was wrong with a file, once; control characters are shown escaped."""
        sentence = f"/{path}: {printable(problem)}"
        if sentence not in self.notes:
            self.notes.append(sentence)


def decimal(text: str) -> int | None:
    """A plain decimal number of up to 9 digits, None for anything else."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def integer(text: str) -> int:
    """A decimal or 0x-prefixed number of up to 20 characters. Raises ValueError naming the text."""
    try:
        if len(text) <= 20:
            return int(text, 0)
    except ValueError:
        pass
    raise ValueError(f"not a number: {text!r}")
