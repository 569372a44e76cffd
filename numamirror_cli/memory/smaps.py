"""/proc/PID/smaps: what numa_maps does not tell of a mapping.

How much of it is in transparent huge pages (weights in 4-KiB pages cost address translations that
huge pages save), and with which flags it was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.memory.process import reading

_HEAD = re.compile(r"([0-9a-f]+)-[0-9a-f]+ ")
# Transparent huge pages by what they hold (Documentation/filesystems/proc, smaps).
_HUGE = ("AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:")


@dataclass(frozen=True)
class Detail:
    """huge_bytes: in transparent huge pages. flags: VmFlags, two letters each (proc(5))."""

    huge_bytes: int = 0
    flags: frozenset[str] = frozenset()


def read_details(pid: int, root: Path = Path("/")) -> dict[int, Detail]:
    """The details of each mapping, by its address.

    Walks the page tables, as numa_maps does. Raises NumaMirrorError as reading() does.
    """
    with reading(pid, "smaps", root) as path, path.open(errors="replace", newline="\n") as lines:
        return parse_details(lines)


def parse_details(lines: Iterable[str]) -> dict[int, Detail]:
    """As above, from the file's lines; an amount that cannot be read counts as none."""
    huge: dict[int, int] = {}
    flags: dict[int, frozenset[str]] = {}
    address = 0
    for line in lines:
        # Names of fields begin with a capital, addresses with a small hexadecimal digit.
        if line[:1] in "0123456789abcdef" and (head := _HEAD.match(line)):
            address = int(head[1], 16)
        elif line.startswith(_HUGE):
            words = line.split()
            if len(words) > 1 and words[1].isdecimal():
                huge[address] = huge.get(address, 0) + int(words[1]) * 1024
        elif line.startswith("VmFlags:"):
            flags[address] = frozenset(line.split()[1:])
    addresses = huge.keys() | flags.keys()
    return {a: Detail(huge.get(a, 0), flags.get(a, frozenset())) for a in addresses}
