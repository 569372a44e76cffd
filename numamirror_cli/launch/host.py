"""The two facts about the kernel that stand beside every result: release and numa_balancing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.memory.kernel import read_numa_balancing


@dataclass(frozen=True)
class Host:
    """kernel: its release. numa_balancing: the sysctl's value (0 off), None where there is none."""

    kernel: str
    numa_balancing: int | None


def read_host(root: Path = Path("/")) -> Host:
    """The machine that we run on; under another root, what its files say."""
    return Host(_kernel(root), read_numa_balancing(root))


def _kernel(root: Path) -> str:
    if root == Path("/"):
        return os.uname().release
    try:
        return (root / "proc/sys/kernel/osrelease").read_text().strip()
    except OSError:
        return ""
