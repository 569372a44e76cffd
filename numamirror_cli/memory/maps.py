"""/proc/PID/maps: how far each mapping reaches. Cheap: unlike numa_maps it walks no page tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.memory.numa_maps import BadLine
from numamirror_cli.memory.process import reading

# proc(5): start-end permissions offset device inode, blanks, and perhaps a name.
_LINE = re.compile(
    r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) (\S{4}) ([0-9a-f]+) ([0-9a-f]+:[0-9a-f]+) (\d+)(?: +(.*))?"
)
_NAMED_ANONYMOUS = re.compile(r"\[anon(?:_shmem)?:(.*)\]", re.DOTALL)


@dataclass(frozen=True)
class Extent:
    """One mapping: [start, end), in bytes.

    name: path, "[heap]", "[anon:NAME]" or "". offset: bytes into the file. device, inode: of the
    file, "0:0" and 0 for anonymous memory.
    """

    start: int
    end: int
    permissions: str
    offset: int = 0
    device: str = "0:0"
    inode: int = 0
    name: str = ""

    @property
    def bytes(self) -> int:
        """Address space, touched or not."""
        return self.end - self.start

    @property
    def executable(self) -> bool:
        return "x" in self.permissions

    @property
    def given_name(self) -> str:
        """What PR_SET_VMA_ANON_NAME called this anonymous mapping, "" when nothing did."""
        match = _NAMED_ANONYMOUS.fullmatch(self.name)
        return match[1] if match else ""


def read_maps(
    pid: int, root: Path = Path("/"), bad: list[BadLine] | None = None
) -> tuple[Extent, ...]:
    """All mappings of a process in address order; bad lines are appended to `bad`.

    Raises NumaMirrorError when the process is gone or may not be read.
    """
    with reading(pid, "maps", root) as path, path.open(errors="replace", newline="\n") as lines:
        return tuple(parse_maps(lines, bad))


def parse_maps(lines: Iterable[str], bad: list[BadLine] | None = None) -> Iterator[Extent]:
    """The extents of the lines that can be read; the others are appended to `bad`."""
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\n")
        match = _LINE.fullmatch(text)
        if match is None or int(match[1], 16) >= int(match[2], 16):
            if bad is not None and text.strip("\0 "):
                bad.append(BadLine(number, text, "not a mapping"))
            continue
        start, end, permissions, offset, device, inode, name = match.groups()
        yield Extent(
            start=int(start, 16),
            end=int(end, 16),
            permissions=permissions,
            offset=int(offset, 16),
            device=device,
            inode=int(inode),
            # The kernel escapes the newline, and nothing else (proc(5)).
            name=(name or "").replace("\\012", "\n"),
        )
