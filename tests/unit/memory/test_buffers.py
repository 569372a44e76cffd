"""Mappings become what a person would name, and no byte is lost on the way."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from numamirror_cli.memory.buffers import LARGE, Buffer, find_buffers
from numamirror_cli.memory.inspection import inspect_process
from numamirror_cli.memory.maps import parse_maps
from numamirror_cli.memory.numa_maps import Mapping, parse_numa_maps
from numamirror_cli.memory.smaps import Detail, parse_details
from numamirror_cli.memory.weights import find_weights

MIB = 1 << 20


def buffers(numa_maps: str, maps: str) -> tuple[Buffer, ...]:
    mappings = parse_numa_maps(numa_maps.splitlines())
    return find_buffers(mappings, tuple(parse_maps(maps.splitlines())))


def anonymous(
    start: int, mib: int, node: int, policy: str = "default", name: str = ""
) -> list[str]:
    pages = mib * 256
    return [
        f"{start:x} {policy} anon={pages} N{node}={pages} kernelpagesize_kB=4",
        f"{start:x}-{start + mib * MIB:x} rw-p 00000000 00:00 0 {name}".rstrip(),
    ]


def together(*regions: list[str]) -> tuple[Buffer, ...]:
    return buffers("\n".join(r[0] for r in regions), "\n".join(r[1] for r in regions))


def test_one_buffer_that_policies_split_is_one_again():
    found = together(
        anonymous(0x10000000, 128, 0, "bind:0"),
        anonymous(0x10000000 + 128 * MIB, 128, 1, "bind:1"),
        anonymous(0x90000000, 64, 0),
    )
    assert [b.bytes // MIB for b in found] == [256, 64]
    assert found[0].bytes_by_node == {0: 128 * MIB, 1: 128 * MIB}
    assert found[0].name == "10000000-20000000"


def test_replicas_are_known_by_the_name_that_the_shim_gave_them():
    found = together(
        anonymous(0x10000000, 8, 1, "bind:1", "[anon:numamirror:replica:node1]"),
        anonymous(0x20000000, 8, 0, "bind:0", "[anon:numamirror:replica:node0,1]"),
        anonymous(0x30000000, 8, 0, name="[anon:something else]"),
    )
    assert [(b.kind, b.name) for b in found] == [
        ("replica", "numamirror:replica:node1"),
        ("replica", "numamirror:replica:node0,1"),
        ("other", "heap, stacks and small buffers"),
    ]


def test_without_names_replicas_are_known_by_how_the_shim_asked_for_them():
    """Kernels built without CONFIG_ANON_VMA_NAME keep no names."""
    arena, other = anonymous(0x10000000, 128, 1, "prefer:1"), anonymous(0x40000000, 128, 0)
    mappings = tuple(parse_numa_maps([arena[0], other[0]]))
    extents = tuple(parse_maps([arena[1], other[1]]))
    flags = frozenset({"rd", "wr", "hg", "dd", "nr"})
    details = {0x10000000: Detail(flags=flags), 0x40000000: Detail(flags=flags - {"dd"})}
    found = find_buffers(mappings, extents, details, has_shim=True)
    assert sorted((b.kind, b.name) for b in found) == [
        ("anonymous", "40000000-48000000"),
        ("replica", "numamirror:replica:node1"),
    ]
    assert {b.kind for b in find_buffers(mappings, extents, details)} == {"anonymous"}


def test_all_pieces_of_a_model_file_are_one_buffer():
    numa = "7f0000000000 default file=/m/a.gguf mapped=256 mapmax=3 N0=256 kernelpagesize_kB=4\n"
    numa += "7f0000800000 default file=/m/a.gguf mapped=256 N1=256 kernelpagesize_kB=4"
    maps = "7f0000000000-7f0000400000 r--s 00000000 fe:00 9 /m/a.gguf\n"
    maps += "7f0000800000-7f0000900000 r--s 00800000 fe:00 9 /m/a.gguf"
    (model,) = buffers(numa, maps)
    assert (model.kind, model.mapped // MIB, model.bytes // MIB) == ("weights", 5, 2)
    assert (model.faulted_share, model.mapmax) == (0.4, 3)


def test_a_deleted_model_file_is_still_weights():
    numa = r"7f0000000000 default file=/m/A.GGUF\040(deleted) mapped=256 N0=256 kernelpagesize_kB=4"
    (model,) = buffers(numa, "")
    assert (model.kind, model.name) == ("weights", "/m/A.GGUF (deleted)")


def test_weights_read_without_mapping_are_the_large_buffers():
    found = together(anonymous(0x10000000, 900, 1), anonymous(0x90000000, 700, 0))
    weights = find_weights(found, model_bytes=1600 * MIB)
    assert weights is not None
    assert (weights.in_file, weights.copies, weights.nodes) == (False, 1.0, (0, 1))


def test_a_model_file_that_is_hardly_in_memory_is_not_what_is_computed_with():
    """Repacked weights leave the mapped file behind, all but a few pages of it unread."""
    numa = "7f0000000000 default file=/m/a.gguf mapped=25 N0=25 kernelpagesize_kB=4\n"
    numa += anonymous(0x10000000, 900, 1)[0]
    maps = anonymous(0x10000000, 900, 1)[1] + "\n"
    maps += "7f0000000000-7f0040000000 r--s 00000000 fe:00 9 /m/a.gguf"
    weights = find_weights(buffers(numa, maps))
    assert weights is not None
    assert not weights.in_file


def test_a_mapping_that_came_between_two_readings_is_counted():
    (found,) = buffers(anonymous(0x10000000, 100, 1)[0], "")
    assert (found.kind, found.bytes) == ("anonymous", 100 * MIB)


PIECES = st.lists(
    st.builds(
        Mapping,
        address=st.integers(1, 1 << 40).map(lambda n: n * 4096),
        policy=st.sampled_from(["default", "prefer:1", "bind:zero"]),
        path=st.sampled_from([None, "/m.gguf", "/lib/x.so", "/dev/zero (deleted)"]),
        huge=st.booleans(),
        heap=st.booleans(),
        pages_by_node=st.dictionaries(st.integers(0, 9), st.integers(0, LARGE // 2048)),
    ),
    max_size=12,
)


@given(PIECES)
def test_no_byte_is_lost_or_counted_twice(mappings):
    found = find_buffers(mappings, ())
    assert sum(b.bytes for b in found) == sum(m.bytes for m in mappings)


def test_huge_pages_are_read_from_smaps():
    smaps = """\
7f0000000000-7f0010000000 rw-p 00000000 00:00 0 [anon:x]
Size:             262144 kB
AnonHugePages:    131072 kB
ShmemPmdMapped:        0 kB
FilePmdMapped:         0 kB
7f0020000000-7f0030000000 r--s 00000000 fe:00 9 /m/a.gguf
AnonHugePages:         0 kB
FilePmdMapped:      2048 kB
AnonHugePages:     words kB
VmFlags: rd mr mw me ms
"""
    details = parse_details(smaps.splitlines())
    huge = {address: detail.huge_bytes // MIB for address, detail in details.items()}
    assert huge == {0x7F0000000000: 128, 0x7F0020000000: 2}
    assert "ms" in details[0x7F0020000000].flags


def test_a_buffer_in_huge_pages_is_shown_as_such():
    memory = mmap.mmap(-1, 256 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    memory[:] = b"x" * len(memory)
    with Path("/proc/self/smaps_rollup").open() as rollup:
        by_kernel = next(int(li.split()[1]) * 1024 for li in rollup if li.startswith("AnonHuge"))
    found = inspect_process(os.getpid(), exact=True).buffers
    ours = sum(b.huge_bytes or 0 for b in found)
    assert abs(ours - by_kernel) <= 32 * MIB
