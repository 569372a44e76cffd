"""Lines of numa_maps mean what the kernel meant, and a broken one costs only itself."""

from __future__ import annotations

import mmap
import os
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamirror_cli.memory.maps import parse_maps
from numamirror_cli.memory.numa_maps import (
    default_huge_page,
    parse_line,
    parse_numa_maps,
    read_numa_maps,
)
from numamirror_cli.memory.placement import add_up
from tests.unit.memory.replay import case

MIB = 1 << 20


def test_p01_a_mapped_model_is_counted_on_the_node_that_holds_it(shared_dir):
    given = case(shared_dir, "P01")
    mapping = parse_line(given["line"])
    assert mapping.path == "/models/m.gguf"
    assert mapping.policy == "bind:0"
    mib = {str(node): count / MIB for node, count in mapping.bytes_by_node.items()}
    assert mib == given["right"]["file_mib"]


def test_p02_huge_pages_are_counted_in_their_own_size(shared_dir):
    given = case(shared_dir, "P02")
    mapping = parse_line(given["line"])
    assert mapping.path == "/anon_hugepage (deleted)"
    placement = add_up([mapping])
    mib = {str(node): rows.huge / MIB for node, rows in placement.by_node.items()}
    assert mib == given["right"]["huge_mib"]
    assert placement.total.total == placement.total.huge


def test_p03_a_library_page_on_an_unknown_node_is_kept(shared_dir):
    placement = add_up([parse_line(case(shared_dir, "P03")["line"])], nodes=[0, 1])
    assert list(placement.by_node) == [0, 1, 3]
    assert placement.by_node[3].private == 200 * 4096


@pytest.mark.parametrize(
    ("line", "page_kib", "mib"),
    [
        ("7f00 default file=/dev/hugepages/a huge dirty=3 N1=3 kernelpagesize_kB=2048", 2048, 6),
        ("7f00 default huge anon=2 N1=2 kernelpagesize_kB=1048576", 1048576, 2048),
        ("7f00 default huge anon=2 N1=2 kernelpagesize_kB=64", 64, 0.125),
        ("7f00 default anon=2 N1=2 kernelpagesize_kB=64", 64, 0.125),
    ],
)
def test_any_page_size_is_taken_from_the_line(line, page_kib, mib):
    mapping = parse_line(line)
    assert mapping.page_bytes == page_kib * 1024
    assert mapping.bytes_by_node == {1: mib * MIB}


def test_without_a_page_size_the_machines_own_is_taken(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1 kB\nHugepagesize:      16384 kB\n")
    huge_page = default_huge_page(tmp_path)
    assert huge_page == 16 * MIB
    lines = ["7f00 default huge anon=2 N1=2", "7f01 default anon=2 N1=2"]
    huge, small = parse_numa_maps(lines, huge_page=huge_page)
    assert huge.bytes == 32 * MIB
    assert small.bytes == 2 * mmap.PAGESIZE


@pytest.mark.parametrize(
    ("line", "policy"),
    [
        ("7f00 prefer (many):0-1 heap anon=1 N0=1", "prefer (many):0-1"),
        ("7f00 prefer (many)=static:0-1 heap anon=1 N0=1", "prefer (many)=static:0-1"),
        ("7f00 weighted interleave:0-1 heap anon=1 N0=1", "weighted interleave:0-1"),
        ("7f00 bind=static|balancing:0 heap anon=1 N0=1", "bind=static|balancing:0"),
    ],
)
def test_policies_with_blanks_do_not_shift_the_words_after_them(line, policy):
    mapping = parse_line(line)
    assert (mapping.policy, mapping.heap, mapping.bytes) == (policy, True, mmap.PAGESIZE)


@pytest.mark.parametrize(
    ("word", "path"),
    [
        (r"/a\040b", "/a b"),
        (r"/a\012b\011c", "/a\nb\tc"),
        (r"/a\075N0\0751", "/a=N0=1"),
        (r"/a\134040", r"/a\040"),
        ("/heap", "/heap"),
        ("/no\u00a0break\x1cN7=1", "/no\u00a0break\x1cN7=1"),
        ("/memfd:x\\040(deleted)", "/memfd:x (deleted)"),
    ],
)
def test_escaped_paths_read_as_they_were_written(word, path):
    mapping = parse_line(f"7f00 default file={word} mapped=1 N0=1 kernelpagesize_kB=4")
    assert mapping.path == path
    assert not mapping.heap


def test_a_file_called_huge_is_not_a_huge_mapping():
    mapping = parse_line("7f00 default file=huge mapped=1 N0=1 kernelpagesize_kB=4")
    assert not mapping.huge


def test_thread_stacks_of_older_kernels_are_stacks():
    assert parse_line("7f00 default stack:4711 anon=1 N0=1").stack


def test_a_mapping_without_pages_is_empty_and_not_an_error():
    assert parse_line("7f00 default file=/x").bytes == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "no policy"),
        ("zzzz default N0=1", "not an address"),
        ("7f00 default anon=1 N0=minus", "not a count: N0=minus"),
        ("7f00 default N0=-5", "not a count"),
        ("7f00 default N0=1_0", "not a count"),
        ("7f00 default N0=" + "9" * 40, "not a count"),
        ("7f00 default N0=1 kernelpagesize_kB=0", "page size 0"),
        ("7f00 default mapmax= N0=1", "not a count: mapmax="),
    ],
)
def test_a_bad_line_is_named_and_the_rest_is_used(line, said):
    bad = []
    good = "7f99 default anon=1 N0=1 kernelpagesize_kB=4"
    mappings = list(parse_numa_maps([good, line, good], bad))
    assert len(mappings) == 2
    assert [b.number for b in bad] == [2]
    assert said in str(bad[0])
    assert line[:20] in str(bad[0])


KNOWN_WORDS = "default prefer (many):0 heap huge stack file=/x N0=1 N= N99999=3 = file= anon=1 7f00"
WORDS = st.sampled_from([*KNOWN_WORDS.split(), "kernelpagesize_kB=4", "kernelpagesize_kB=x"])


@given(st.lists(st.one_of(WORDS, st.text(string.printable, max_size=12)), max_size=8))
def test_any_line_is_a_mapping_or_a_named_bad_line(words):
    bad = []
    line = " ".join(words).replace("\n", " ").replace("\r", " ")
    mappings = list(parse_numa_maps([line], bad))
    assert len(mappings) + len(bad) <= 1
    for mapping in mappings:
        assert mapping.bytes >= 0
        assert add_up([mapping]).total.total == mapping.bytes


KNOWN_MAPS_WORDS = "1000-2000 2000-1000 rw-p r--s 0 00:00 fe:00 9 /m [heap] - :"
MAPS_WORDS = st.sampled_from(KNOWN_MAPS_WORDS.split())


@given(st.lists(st.one_of(MAPS_WORDS, st.text(string.printable, max_size=12)), max_size=8))
def test_any_line_of_maps_is_an_extent_or_a_named_bad_line(words):
    bad = []
    line = " ".join(words).replace("\n", " ")
    extents = list(parse_maps([line], bad))
    assert len(extents) + len(bad) <= 1
    assert all(extent.bytes > 0 for extent in extents)


def test_a_file_name_with_a_carriage_return_does_not_end_the_line(tmp_path):
    name = tmp_path / "model\rN5=7.gguf"
    name.write_bytes(b"x" * 4096)
    with name.open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        assert mapping[0] == ord("x")
        bad = []
        found = [m for m in read_numa_maps(os.getpid(), bad=bad) if m.path == str(name)]
    assert [m.bytes for m in found] == [4096]
    assert bad == []


def test_a_live_process_is_read_while_it_streams():
    memory = mmap.mmap(-1, 8 * MIB)
    memory[:] = b"x" * len(memory)
    bad = []
    mappings = list(read_numa_maps(os.getpid(), bad=bad))
    assert bad == []
    assert sum(m.bytes for m in mappings) > 8 * MIB
    assert any(m.heap for m in mappings) and any(m.stack for m in mappings)
