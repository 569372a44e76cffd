"""Pages are where the kernel says, and what cannot be asked is an error, never a zero."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys

import pytest

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.memory.pages import locate_pages, sample_nodes, spread_addresses
from tests.unit.memory.as_nobody import as_nobody
from tests.unit.memory.under_seccomp import ENOSYS, EPERM, run_denied

PAGE = mmap.PAGESIZE


def address_of(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def test_touched_pages_have_a_node_and_untouched_ones_are_absent():
    memory = mmap.mmap(-1, 64 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # With huge pages a touched page would bring its neighbours in.
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    start = address_of(memory)
    for page in range(0, 64, 2):
        memory[page * PAGE] = 1
    sample = sample_nodes(0, [start + page * PAGE for page in range(64)])
    assert sample.located == 32
    assert sample.absent == 32
    assert sample.on(sample.by_node) == 32
    assert not sample.errors


def test_asking_does_not_fault_pages_in():
    memory = mmap.mmap(-1, 64 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    addresses = [address_of(memory) + page * PAGE for page in range(64)]
    sample_nodes(0, addresses)
    assert sample_nodes(0, addresses).absent == 64


def test_more_pages_than_one_call_takes_are_all_answered():
    pages = 40_000
    memory = mmap.mmap(-1, pages * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[0] = memory[(pages - 1) * PAGE] = 1
    statuses = locate_pages(0, [address_of(memory) + page * PAGE for page in range(pages)])
    assert len(statuses) == pages
    assert statuses[0] >= 0 and statuses[-1] >= 0


def test_a_process_that_is_gone_is_an_error():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with pytest.raises(NumaMirrorError, match=f"no process {child.pid}"):
        sample_nodes(child.pid, [0x1000])


def test_another_users_process_is_not_allowed_rather_than_empty():
    victim = subprocess.Popen(["sleep", "30"])
    try:
        said = as_nobody(lambda: sample_nodes(victim.pid, [4096]))
    finally:
        victim.kill()
        victim.wait()
    assert f"not allowed to ask where the pages of process {victim.pid} lie" in said


@pytest.mark.parametrize(("code", "said"), [(EPERM, "not allowed"), (ENOSYS, "no move_pages call")])
def test_a_filter_that_denies_move_pages_is_an_error(code, said):
    source = (
        "from numamirror_cli.memory.pages import sample_nodes\n"
        "try: print(sample_nodes(0, [4096]))\nexcept Exception as e: print(e)"
    )
    assert said in run_denied(["move_pages"], code, source)


def test_addresses_are_spread_over_the_whole_range():
    start = 0x1000_0000
    spread = spread_addresses(start, start + 1000 * PAGE, 10, PAGE)
    assert [(a - start) // PAGE // 100 for a in spread] == list(range(10))
    assert all(a % PAGE == 0 for a in spread)


def test_interleaved_pages_are_met_on_both_nodes():
    """A regular stride of an even number of pages would only ever meet one of two nodes."""
    pages = [address // PAGE for address in spread_addresses(0, 65536 * PAGE, 1024, PAGE)]
    on_odd_pages = sum(page % 2 for page in pages)
    assert 412 < on_odd_pages < 612


def test_a_short_range_is_asked_page_by_page():
    assert spread_addresses(0, 3 * PAGE, 512, PAGE) == [0, PAGE, 2 * PAGE]
    assert spread_addresses(0, 0, 512, PAGE) == []
