"""The two facts about the kernel that stand beside every result: release and numa_balancing."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Host:
    """kernel: its release. numa_balancing: the sysctl's value (0 off), None where there is none."""

    kernel: str
    numa_balancing: int | None


def read_host(root: Path = Path("/")) -> Host:
    """The machine that we run on; under another root, what its files say."""
    try:
        text = (root / "proc/sys/kernel/numa_balancing").read_text()
        balancing: int | None = int(text)
    except (OSError, ValueError):
        balancing = None
    return Host(_kernel(root), balancing)


def _kernel(root: Path) -> str:
    if root == Path("/"):
        return platform.release()
    try:
        return (root / "proc/sys/kernel/osrelease").read_text().strip()
    except OSError:
        return ""
