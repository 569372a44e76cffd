"""Texts by which builds are known that say nothing in their symbols."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path

# A sentence of ggml's CPU code that no build leaves out.
CPU_CODE = (b"numa_balancing is enabled",)
# Programs can carry whole models behind their code.
MOST_BYTES = 1 << 29


def contains(path: Path, texts: Sequence[bytes]) -> bool:
    """Whether one of the texts is in the first 512 MiB of a file; False when it cannot be read."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
            return any(content.find(text, 0, MOST_BYTES) >= 0 for text in texts)
    except (OSError, ValueError):  # gone meanwhile, or empty
        return False
