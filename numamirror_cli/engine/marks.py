"""Texts by which builds are known that say nothing in their symbols, and an option they take."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

# A sentence of ggml's CPU code that no build leaves out, and what builds print that can mirror by
# themselves: the value of --numa in their help, or a line of their log.
CPU_CODE = (b"numa_balancing is enabled",)
OWN_MIRROR = (b"\n- mirror", b"numa mirror", b"NUMA mirror")
# Programs can carry whole models behind their code.
_MOST_BYTES = 1 << 29


def contains(path: Path, texts: Sequence[bytes]) -> bool:
    """Whether one of the texts is in the first 512 MiB of a file; False when it cannot be read."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
            return any(content.find(text, 0, _MOST_BYTES) >= 0 for text in texts)
    except (OSError, ValueError):  # gone meanwhile, or empty
        return False


def asks_for_mirror(arguments: Sequence[str]) -> bool:
    """--numa mirror, in the engines' own spelling; it means nothing to a build without it."""
    return ("--numa", "mirror") in pairwise(arguments) or "--numa=mirror" in arguments
