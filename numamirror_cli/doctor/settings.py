"""Settings of the kernel, and limits of this process, that decide how a mirror fares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.machine.tree import Tree, decimal
from numamirror_cli.memory.kernel import read_numa_balancing
from numamirror_cli.memory.lock_limit import read_lock_limit

_HUGE_PAGES = "sys/kernel/mm/transparent_hugepage/enabled"


@dataclass(frozen=True)
class Settings:
    """None where the kernel does not say.

    huge_pages: "always", "madvise" or "never", "" where there are none. max_map_count: mappings
    that a process may have. swap_total, swap_used, lock_limit: bytes; the latter UNLIMITED too.
    """

    numa_balancing: int | None = None
    huge_pages: str | None = None
    max_map_count: int | None = None
    swap_total: int | None = None
    swap_used: int | None = None
    lock_limit: int | None = None


def read_settings(root: Path = Path("/")) -> Settings:
    """What the files below a root say; unreadable ones count as saying nothing."""
    tree = Tree(root)
    total, free = (_meminfo(tree, name) for name in ("SwapTotal", "SwapFree"))
    return Settings(
        numa_balancing=read_numa_balancing(root),
        huge_pages=_huge_pages(tree),
        max_map_count=decimal(tree.text("proc/sys/vm/max_map_count") or ""),
        swap_total=total,
        swap_used=None if total is None or free is None else max(0, total - free),
        lock_limit=read_lock_limit(root),
    )


def _huge_pages(tree: Tree) -> str | None:
    """The chosen one of "always [madvise] never"; "" on a kernel without huge pages."""
    text = tree.text(_HUGE_PAGES)
    if text is None:
        # A kernel that has other settings and not this one was built without huge pages.
        return "" if tree.text("proc/sys/vm/max_map_count") is not None else None
    chosen = re.search(r"\[(\w+)\]", text)
    return chosen[1] if chosen else None


def _meminfo(tree: Tree, name: str) -> int | None:
    match = re.search(rf"^{name}: +(\d+) kB$", tree.text("proc/meminfo") or "", re.MULTILINE)
    return int(match[1]) * 1024 if match else None
