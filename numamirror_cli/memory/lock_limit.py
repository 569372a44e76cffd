"""How much memory this process may lock, which is what an engine's --mlock comes up against."""

from __future__ import annotations

import re
from pathlib import Path

from numamirror_cli.machine.tree import Tree

UNLIMITED = -1
_CAP_IPC_LOCK = 14  # linux/capability.h
_LOCK_LIMIT = re.compile(r"^Max locked memory +(unlimited|\d+) ", re.MULTILINE)
_CAPABILITIES = re.compile(r"^CapEff:\s+([0-9a-f]+)", re.MULTILINE)


def read_lock_limit(root: Path = Path("/")) -> int | None:
    """The soft RLIMIT_MEMLOCK in bytes (proc(5), limits); None where the files do not say.

    UNLIMITED also with CAP_IPC_LOCK, which is above the limit (mlock(2)).
    """
    tree = Tree(root)
    limit = _LOCK_LIMIT.search(tree.text("proc/self/limits") or "")
    if limit is None:
        return None
    held = _CAPABILITIES.search(tree.text("proc/self/status") or "")
    if limit[1] == "unlimited" or (held and int(held[1], 16) >> _CAP_IPC_LOCK & 1):
        return UNLIMITED
    return int(limit[1])
