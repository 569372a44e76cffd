"""Which processes have a file mapped: their pages of it can't be dropped from the cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.memory.find import all_processes
from numamirror_cli.memory.maps import Extent, read_maps
from numamirror_cli.memory.page_cache import CacheState
from numamirror_cli.memory.process import Process


def processes_mapping(state: CacheState, root: Path = Path("/")) -> Iterator[Process]:
    """Processes that have a file in their maps, as far as they may be read, in pid order."""
    path = str(state.path.resolve())
    for process in all_processes(root):
        try:
            extents = read_maps(process.pid, root)
        except NumaMirrorError:
            continue
        if any(_is_of(extent, state, path) for extent in extents):
            yield process


def _is_of(extent: Extent, state: CacheState, path: str) -> bool:
    """By number; by name too, since overlayfs and btrfs number the mapped file differently.

    The name of a file that was replaced meanwhile ends in " (deleted)", and so does not match.
    """
    if extent.inode == state.inode and extent.device == state.device:
        return True
    return bool(extent.inode) and extent.name == path
