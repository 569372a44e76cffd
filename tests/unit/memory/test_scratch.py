"""The engine's KV cache and compute buffers are told apart, and no byte is counted twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from numamirror_cli.memory.buffers import Buffer, find_buffers
from numamirror_cli.memory.maps import read_maps
from numamirror_cli.memory.numa_maps import read_numa_maps
from numamirror_cli.memory.scratch import find_scratch
from numamirror_cli.memory.status_page import EngineBuffer

MIB = 1 << 20
SIZE = 160 * MIB
HOLDS_ONE_MAPPING = f"""
import ctypes, mmap, sys
memory = mmap.mmap(-1, {SIZE}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, {SIZE}, 4096): memory[at] = 1
print(ctypes.addressof(ctypes.c_char.from_buffer(memory)), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder() -> Iterator[tuple[int, int]]:
    """A process that holds SIZE bytes: its pid, and their address in it."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLDS_ONE_MAPPING], **pipes) as child:
        assert child.stdout
        yield child.pid, int(child.stdout.readline())
        child.kill()


def seen(pid: int, *told: EngineBuffer) -> tuple[Buffer, ...]:
    extents = read_maps(pid)
    return find_buffers(read_numa_maps(pid), extents, scratch=find_scratch(pid, told, extents))


def bytes_by_kind(buffers: tuple[Buffer, ...]) -> dict[str, int]:
    return {buffer.kind: buffer.bytes for buffer in buffers}


def test_a_cache_inside_other_memory_is_a_row_of_its_own_and_the_sum_stays(holder):
    pid, start = holder
    before = bytes_by_kind(seen(pid))
    cache = EngineBuffer("cache", start + 8 * MIB, 40 * MIB)
    computing = EngineBuffer("compute", start + 64 * MIB, 2 * MIB)
    after = bytes_by_kind(seen(pid, cache, computing))
    assert (after["cache"], after["compute"]) == (40 * MIB, 2 * MIB)
    assert before["anonymous"] - after["anonymous"] == 42 * MIB
    assert sum(after.values()) == pytest.approx(sum(before.values()), abs=MIB)


def test_the_pieces_of_a_cache_are_one_row(holder):
    pid, start = holder
    pieces = [EngineBuffer("cache", start + n * 16 * MIB, 8 * MIB) for n in range(4)]
    found = seen(pid, *pieces)
    assert [(b.name, b.bytes, b.asked) for b in found if b.kind == "cache"] == [
        ("KV cache", 32 * MIB, 0)
    ]


def test_where_a_large_cache_lies_is_estimated_and_says_from_how_many_pages(holder):
    pid, start = holder
    (cache,) = (b for b in seen(pid, EngineBuffer("cache", start, 100 * MIB)) if b.kind == "cache")
    assert cache.bytes == 100 * MIB  # all of it is on one node or other
    assert cache.asked == 64 * MIB // 4096


def test_memory_that_the_engine_has_given_back_has_no_row(holder):
    pid, _ = holder
    # Below where a program without position-independent code begins, 4 MiB.
    given_back = EngineBuffer("cache", 0x10000, 2 * MIB)
    assert "cache" not in bytes_by_kind(seen(pid, given_back))
