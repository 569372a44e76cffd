"""/proc/PID/maps: every mapping with its name as the file is called, and bad lines named."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from numamirror_cli.memory.mapped_by import processes_mapping
from numamirror_cli.memory.maps import Extent, parse_maps, read_maps
from numamirror_cli.memory.numa_maps import BadLine
from numamirror_cli.memory.page_cache import CacheState

LINE = "7f0000000000-7f0000200000 r-xp 00001000 fe:01 4711                       /opt/a b.so"


def test_a_line_is_read_whole() -> None:
    [extent] = parse_maps([f"{LINE}\n"])
    assert extent == Extent(
        0x7F0000000000, 0x7F0000200000, "r-xp", 0x1000, "fe:01", 4711, "/opt/a b.so"
    )
    assert extent.bytes == 2 << 20 and extent.executable


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("[anon:numamirror:replica:node1]", "numamirror:replica:node1"),
        ("[anon_shmem:x]", "x"),
        ("[heap]", ""),
    ],
)
def test_a_name_that_a_program_gave_is_told_from_the_kernels(text: str, name: str) -> None:
    [extent] = parse_maps([f"1000-2000 rw-p 00000000 00:00 0    {text}\n"])
    assert extent.name == text and extent.given_name == name


@pytest.mark.parametrize(
    "line", ["nonsense", "2000-1000 rw-p 0 00:00 0", "1000-1000 rw-p 0 00:00 0"]
)
def test_a_line_that_is_no_mapping_is_left_out_and_named(line: str) -> None:
    bad: list[BadLine] = []
    assert [extent.inode for extent in parse_maps([line, LINE], bad)] == [4711]
    assert [(one.number, one.text, one.why) for one in bad] == [(1, line, "not a mapping")]


@pytest.mark.parametrize(
    "name", ["plain", "two  blanks ", "new\nline", "umläut", "carriage\rreturn"]
)
def test_a_mapped_file_has_the_name_that_it_has(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(bytes(mmap.PAGESIZE))
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ):
        inode = file.stat().st_ino
        assert [e.name for e in read_maps(os.getpid()) if e.inode == inode] == [str(file)]


def state(file: Path, inode: int) -> CacheState:
    return CacheState(file, 4096, 0, {}, 0, "00:00", inode)


def test_a_file_whose_number_differs_under_an_overlay_is_known_by_its_name(tmp_path: Path) -> None:
    """overlayfs and btrfs number a mapped file otherwise than stat(2) does."""
    file, other = tmp_path / "model.gguf", tmp_path / "other.gguf"
    file.write_bytes(bytes(mmap.PAGESIZE))
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ):
        assert os.getpid() in [p.pid for p in processes_mapping(state(file, inode=1))]
        assert os.getpid() not in [p.pid for p in processes_mapping(state(other, inode=1))]
        file.unlink()
        file.write_bytes(b"another one of the same name")
        assert os.getpid() not in [p.pid for p in processes_mapping(state(file, inode=1))]
