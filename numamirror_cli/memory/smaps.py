"""/proc/PID/smaps: how much of each mapping is backed by transparent huge pages.

Weights in 4-KiB pages cost address translations that huge pages save; numa_maps does not tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from numamirror_cli.memory.process import reading

_HEAD = re.compile(r"([0-9a-f]+)-[0-9a-f]+ ")
# Transparent huge pages by what they hold (Documentation/filesystems/proc, smaps).
_HUGE = ("AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:")


def read_huge_bytes(pid: int, root: Path = Path("/")) -> dict[int, int]:
    """Bytes in transparent huge pages, by the address of each mapping that has any.

    Walks the page tables, as numa_maps does. Raises NumaMirrorError as reading() does.
    """
    with reading(pid, "smaps", root) as path, path.open(errors="replace", newline="\n") as lines:
        return parse_huge_bytes(lines)


def parse_huge_bytes(lines: Iterable[str]) -> dict[int, int]:
    """As above, from the file's lines; what cannot be read counts as no huge page."""
    huge: dict[int, int] = {}
    address = 0
    for line in lines:
        # Names of fields begin with a capital, addresses with a small hexadecimal digit.
        if line[:1] in "0123456789abcdef" and (head := _HEAD.match(line)):
            address = int(head[1], 16)
        elif line.startswith(_HUGE):
            words = line.split()
            if len(words) > 1 and words[1].isdecimal() and (kib := int(words[1])):
                huge[address] = huge.get(address, 0) + kib * 1024
    return huge
