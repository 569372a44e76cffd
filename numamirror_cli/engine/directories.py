"""Looking around in places that may be missing or closed to us: there is nothing, and no error.

pathlib raises what stat(2) says of them (EACCES, ENAMETOOLONG) in the versions of Python before
3.14. A PATH that sudo or a service kept from root is full of them.
"""

from __future__ import annotations

from pathlib import Path


def is_file(path: Path) -> bool:
    """There is such a file, as far as we may look."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_directory(path: Path) -> bool:
    """There is such a directory, as far as we may look."""
    try:
        return path.is_dir()
    except OSError:
        return False


def matching(directory: Path, pattern: str) -> list[Path]:
    """What a glob pattern names below a directory, sorted."""
    try:
        return sorted(directory.glob(pattern))
    except OSError:
        return []
