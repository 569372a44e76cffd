"""/proc/PID/numa_maps, read line by line: where the pages of each mapping lie.

The format is that of numa(7) and show_numa_map() in the kernel's fs/proc/task_mmu.c: an address, a
policy, then words in any order. Counts are in pages of kernelpagesize_kB.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from numamirror_cli.memory.process import reading

_DEFAULT_HUGE_PAGE = 2 << 20
# The two policies that the kernel spells with a blank.
_TWO_WORD_POLICIES = ("prefer", "weighted")
_NODE_COUNT = re.compile(r"N([0-9]+)")
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mapping:
    """One line of numa_maps.

    policy: in the kernel's words ("prefer:1"); it is the process's own where the mapping has none.
    path: the mapped file, " (deleted)" included, None for anonymous memory.
    pages_by_node: pages of page_bytes each, per node, of those in memory.
    anon, dirty, mapped, mapmax: as in numa(7); mapmax is how many processes map the most shared
    page, 1 when the line does not say.
    """

    address: int
    policy: str
    path: str | None = None
    huge: bool = False
    heap: bool = False
    stack: bool = False
    pages_by_node: MappingOf[int, int] = field(default_factory=dict)
    page_bytes: int = mmap.PAGESIZE
    anon: int = 0
    dirty: int = 0
    mapped: int = 0
    mapmax: int = 1

    @property
    def bytes_by_node(self) -> dict[int, int]:
        """Bytes in memory, per node."""
        return {node: pages * self.page_bytes for node, pages in self.pages_by_node.items()}

    @property
    def bytes(self) -> int:
        """Bytes in memory, on all nodes."""
        return sum(self.pages_by_node.values()) * self.page_bytes


@dataclass(frozen=True)
class BadLine:
    """A line that was left out, its number from 1, and what is wrong with it."""

    number: int
    text: str
    why: str

    def __str__(self) -> str:
        return f"line {self.number} ignored ({self.why}): {self.text[:120]!r}"


def read_numa_maps(
    pid: int, root: Path = Path("/"), bad: list[BadLine] | None = None
) -> Iterator[Mapping]:
    """The mappings of a process, read as they are asked for; bad lines are appended to `bad`.

    Raises NumaMirrorError when the process is gone, may not be read, or the kernel has no NUMA;
    also in the middle, since the kernel may refuse a read after it allowed the open.
    """
    huge_page = default_huge_page(root)
    with reading(pid, "numa_maps", root) as path, _open_lines(path) as lines:
        yield from parse_numa_maps(lines, bad, huge_page=huge_page)


def _open_lines(path: Path) -> TextIO:
    # Only "\n" ends a line: the kernel leaves a carriage return in a file name as it is.
    return path.open(errors="replace", newline="\n")


def parse_numa_maps(
    lines: Iterable[str],
    bad: list[BadLine] | None = None,
    *,
    huge_page: int = _DEFAULT_HUGE_PAGE,
) -> Iterator[Mapping]:
    """Mappings of the lines that can be read; the others are appended to `bad`.

    huge_page: bytes of a huge page where a line does not say (kernels before 3.17).
    """
    for number, line in enumerate(lines, 1):
        text = line.strip("\0 \r\n")
        if not text:
            continue
        try:
            yield parse_line(text, huge_page)
        except ValueError as error:
            if bad is not None:
                bad.append(BadLine(number, text, str(error)))


def parse_line(text: str, huge_page: int = _DEFAULT_HUGE_PAGE) -> Mapping:
    """One line. Raises ValueError that says what is wrong with it."""
    # Blanks alone part words: a file name may hold what str.split() also takes for white space.
    words = [word for word in text.split(" ") if word]
    if len(words) < 2:
        raise ValueError("no policy")
    policy, rest = words[1], words[2:]
    if policy in _TWO_WORD_POLICIES and rest:
        policy, rest = f"{policy} {rest[0]}", rest[1:]
    flags = {word.partition(":")[0] for word in rest if "=" not in word}
    values = dict(word.split("=", 1) for word in rest if "=" in word)
    return Mapping(
        address=_address(words[0]),
        policy=policy,
        path=_unescaped(values["file"]) if "file" in values else None,
        huge="huge" in flags,
        heap="heap" in flags,
        stack="stack" in flags,
        pages_by_node=_node_counts(values),
        page_bytes=_page_bytes(values, huge_page if "huge" in flags else mmap.PAGESIZE),
        anon=_count(values, "anon", 0),
        dirty=_count(values, "dirty", 0),
        mapped=_count(values, "mapped", 0),
        mapmax=_count(values, "mapmax", 1),
    )


def default_huge_page(root: Path = Path("/")) -> int:
    """Hugepagesize of /proc/meminfo in bytes; 2 MiB where it does not say."""
    try:
        for line in (root / "proc/meminfo").read_text(errors="replace").splitlines():
            name, _, amount = line.partition(":")
            if name == "Hugepagesize":
                return int(amount.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return _DEFAULT_HUGE_PAGE


def _address(word: str) -> int:
    try:
        return int(word, 16)
    except ValueError:
        raise ValueError(f"not an address: {word[:40]!r}") from None


def _node_counts(values: MappingOf[str, str]) -> dict[int, int]:
    counts = {}
    for name in values:
        if match := _NODE_COUNT.fullmatch(name):
            counts[int(match[1])] = _count(values, name, 0)
    return counts


def _page_bytes(values: MappingOf[str, str], default: int) -> int:
    size = _count(values, "kernelpagesize_kB", 0) * 1024
    if "kernelpagesize_kB" in values and not size:
        raise ValueError("page size 0")
    return size or default


def _count(values: MappingOf[str, str], name: str, default: int) -> int:
    word = values.get(name)
    if word is None:
        return default
    # int() alone would take "1_0", "-1" and digits of other scripts.
    if not (word.isascii() and word.isdecimal()) or len(word) > 18:
        raise ValueError(f"not a count: {name}={word[:40]}")
    return int(word)


def _unescaped(path: str) -> str:
    """seq_file's octal escapes undone: \\040 is a blank, \\012 a newline, \\134 a backslash."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), path)
