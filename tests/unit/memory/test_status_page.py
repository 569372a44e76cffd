"""The status page is read as the shim's header lays it out, whole or not at all."""

from __future__ import annotations

import ctypes
import io
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from numamirror_cli.engine import status_layout
from numamirror_cli.engine.status_layout import (
    BufferLayout,
    CopyLayout,
    GroupLayout,
    StatusLayout,
    ThreadLayout,
)
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.memory import status_page
from numamirror_cli.memory.status_page import read_mirror_status, read_status
from numamirror_cli.report.mirror import judge_mirror, mirror_json, render_mirror
from numamirror_cli.report.verdict import render_verdicts
from tests.unit.launch.listener import eventually

HEADER = Path(__file__).parents[3] / "native/include"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc, clang)")

LAYOUTS = {
    "nm_status": StatusLayout,
    "nm_status_copy": CopyLayout,
    "nm_status_thread": ThreadLayout,
    "nm_status_buffer": BufferLayout,
    "nm_status_group": GroupLayout,
}


def compile_and_run(tmp_path: Path, source: str) -> Path:
    (tmp_path / "program.c").write_text(source)
    program = tmp_path / "program"
    subprocess.run(
        [str(COMPILER), "-I", str(HEADER), "-O1", "-o", str(program), str(tmp_path / "program.c")],
        check=True,
    )
    return program


@needs_compiler
def test_every_field_lies_where_the_c_compiler_puts_it(tmp_path):
    lines = [
        f'printf("{struct} {name} %zu %zu\\n", offsetof(struct {struct}, {name}),'
        f" sizeof(((struct {struct} *)0)->{name}));"
        for struct, layout in LAYOUTS.items()
        for name, *_ in layout._fields_
    ]
    lines += [f'printf("{s} - 0 %zu\\n", sizeof(struct {s}));' for s in LAYOUTS]
    source = (
        "#include <stdio.h>\n#include <stddef.h>\n#include <numamirror_status.h>\n"
        "int main(void) {" + "\n".join(lines) + "}"
    )
    said = subprocess.check_output([compile_and_run(tmp_path, source)], text=True).splitlines()
    ours = [
        f"{struct} {name} {getattr(layout, name).offset} {getattr(layout, name).size}"
        for struct, layout in LAYOUTS.items()
        for name, *_ in layout._fields_
    ]
    ours += [f"{s} - 0 {ctypes.sizeof(layout)}" for s, layout in LAYOUTS.items()]
    assert said == ours


@needs_compiler
def test_constants_and_names_are_those_of_the_header(tmp_path):
    names = [
        "WAITING",
        "INERT",
        "BUILDING",
        "MIRRORED",
        "PARTIAL",
        "OFF",
        "FREED",
        "SHARDED",
        "OBSERVED",
    ]
    roles = ["UNUSED", "PRIMARY", "REPLICA", "SHARD"]
    kinds = ["ALLOTTED", "COMPUTE", "CACHE"]
    numbers = ", ".join(f"NM_{n}" for n in [*names, *roles, *kinds])
    source = (
        "#include <stdio.h>\n#include <numamirror_status.h>\nint main(void) {"
        'printf("%s|%s %s %d %d %d %d\\n", NM_STATUS_MARK, NM_STATUS_NAME, NM_STATUS_MAGIC,'
        " NM_STATUS_VERSION, NM_MAX_COPIES, NM_MAX_THREADS, NM_MAX_BUFFERS);"
        f"int all[] = {{{numbers}}};"
        " for (unsigned i = 0; i < sizeof all / sizeof *all; i++)"
        ' printf("%d ", all[i]);}'
    )
    first, second = subprocess.check_output(
        [compile_and_run(tmp_path, source)], text=True
    ).splitlines()
    magic = status_layout.MAGIC.rstrip(b"\0").decode()
    limits = (
        status_layout.VERSION,
        status_layout.MAX_COPIES,
        status_layout.MAX_THREADS,
        status_layout.MAX_BUFFERS,
    )
    mark = status_layout.MARK.rstrip(b"\0").decode()
    assert first == f"{mark}|{status_layout.NAME} {magic} " + " ".join(map(str, limits))
    assert [status_layout.STATES[int(i)].upper() for i in second.split()[:9]] == names
    assert [status_layout.ROLES[int(i)].upper() for i in second.split()[9:13]] == roles
    assert [status_layout.BUFFER_KINDS[int(i)].upper() for i in second.split()[13:]] == kinds


WRITER = r"""
#define _GNU_SOURCE
#include <numamirror_status.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    (void)argv;
    int fd = memfd_create(NM_STATUS_NAME, 0);
    if (fd < 0 || ftruncate(fd, sizeof(struct nm_status))) return 1;
    struct nm_status *page = mmap(0, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memcpy(page->magic, NM_STATUS_MAGIC, 8);
    page->version = NM_STATUS_VERSION;
    page->bytes = sizeof *page;
    page->state = NM_MIRRORED;
    page->pid = (uint32_t)getpid();
    page->copies = NM_MAX_COPIES;
    _Atomic uint32_t *seq = (_Atomic uint32_t *)&page->seq;
    puts("ready");
    fflush(stdout);
    for (uint64_t i = 1;; i++) {
        atomic_fetch_add(seq, 1);
        page->gemm_bytes = i;
        for (int c = 0; c < NM_MAX_COPIES; c++) page->copy[c].bytes = i;
        page->mirrored_bytes = i;
        if (argc > 1) { puts("half-written"); fflush(stdout); pause(); }
        atomic_fetch_add(seq, 1);
        if (i % 16 == 0) usleep(50);
    }
}
"""


def start_writer(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    program = compile_and_run(tmp_path, WRITER)
    writer = subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, text=True)
    assert writer.stdout and writer.stdout.readline() == "ready\n"
    return writer


@needs_compiler
def test_a_page_that_is_being_written_is_never_read_half(tmp_path, monkeypatch):
    # The writer may lose its CPU at any moment, and wait for another.
    monkeypatch.setattr(status_page, "_READ_ATTEMPTS", 120_000)
    writer = start_writer(tmp_path)
    seen: list[status_page.MirrorStatus | None] = []

    def was_written_between() -> bool:
        """Where there is one CPU, the writer may not get it for a while."""
        seen.extend(read_mirror_status(writer.pid) for _ in range(300))
        return len({status.gemm_bytes for status in seen if status}) > 1

    try:
        eventually(was_written_between, "the writer to go on")
    finally:
        writer.kill()
        writer.wait()
    for status in seen:
        assert status is not None
        amounts = {copy.bytes for copy in status.copies}
        assert amounts == {status.gemm_bytes} == {status.mirrored_bytes}


@needs_compiler
def test_a_writer_killed_in_the_middle_is_reported_and_not_believed(tmp_path):
    writer = start_writer(tmp_path, "stop-half-way")
    assert writer.stdout and writer.stdout.readline() == "half-written\n"
    page = status_page.find_status_page(writer.pid)
    assert page is not None
    descriptor = os.open(page, os.O_RDONLY)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    with pytest.raises(NumaMirrorError, match="half-written"):
        read_status(descriptor)
    os.close(descriptor)


def test_a_process_without_the_shim_has_no_status_page():
    assert read_mirror_status(os.getpid()) is None


class Page:
    """A status page of our own, in a memfd, filled field by field."""

    def __init__(self, **fields: object) -> None:
        self.layout = StatusLayout(
            magic=status_layout.MAGIC, version=1, bytes=ctypes.sizeof(StatusLayout), home=1
        )
        for name, value in fields.items():
            setattr(self.layout, name, value)

    def read(self) -> status_page.MirrorStatus:
        descriptor = os.memfd_create("numamirror-status")
        try:
            os.write(descriptor, bytes(self.layout))
            return read_status(descriptor)
        finally:
            os.close(descriptor)


def two_copies(primary_local: int = 512, **fields: object) -> Page:
    page = Page(state=3, copies=2, gemm_bytes=1000, mirrored_bytes=1000, **fields)
    page.layout.copy[0] = CopyLayout(0, 2, 1000, 7, 512, 512, 0, 4, b"0")
    page.layout.copy[1] = CopyLayout(1, 1, 1000, 0, 512, primary_local, 0, 0, b"1")
    return page


def test_coverage_is_the_mirrored_share_of_what_gemm_reads():
    page = two_copies()
    page.layout.mirrored_bytes = 670
    assert page.read().coverage == pytest.approx(0.67)


def test_locality_counts_replicas_and_the_primary_but_not_other_reads():
    page = two_copies(threads=2)
    page.layout.thread[0] = ThreadLayout(11, 0, 600, 0, 0, 6, 0, 0, 0)
    page.layout.thread[1] = ThreadLayout(12, 1, 0, 300, 0, 3, 0, 0, 0)
    page.layout.retired[status_layout.MAX_COPIES] = ThreadLayout(0, -1, 0, 0, 100, 0, 1, 0, 0)
    status = page.read()
    assert status.locality == pytest.approx(0.9)
    assert (status.redirected, status.not_redirected) == (9, 1)


def test_threads_that_found_no_entry_are_in_no_figure_and_counted():
    page = two_copies(uncounted=3)
    assert (page.read().uncounted_threads, page.read().read_bytes) == (3, 0)


def test_a_primary_that_the_sample_found_elsewhere_does_not_count_as_local():
    page = two_copies(primary_local=128, threads=1)
    page.layout.thread[0] = ThreadLayout(12, 1, 0, 1000, 0, 3, 0, 0, 0)
    assert page.read().locality == pytest.approx(0.25)


def test_a_copy_that_was_never_sampled_does_not_count_as_local():
    page = two_copies(threads=1)
    page.layout.copy[0].sampled_pages = page.layout.copy[0].sampled_local = 0
    page.layout.copy[0].sample_errno = 1
    page.layout.thread[0] = ThreadLayout(11, 0, 1000, 0, 0, 3, 0, 0, 0)
    assert page.read().locality == 0.0


def test_no_more_pages_are_in_place_than_were_sampled():
    page = two_copies(primary_local=5000, threads=1)
    page.layout.thread[0] = ThreadLayout(12, 1, 0, 1000, 0, 3, 0, 0, 0)
    assert page.read().locality == 1.0


def test_before_the_first_read_there_is_no_locality():
    assert two_copies().read().locality is None


def test_buffers_of_unknown_kind_or_beyond_all_addresses_are_left_out():
    page = two_copies(buffers=4)
    page.layout.buffer[0] = BufferLayout(4096, 100, 2, 0)
    page.layout.buffer[1] = BufferLayout(8192, 100, 77, 0)
    page.layout.buffer[2] = BufferLayout(2**64 - 10, 100, 1, 0)
    page.layout.buffer[3] = BufferLayout(1 << 20, 300, 1, 0)
    told = [(b.kind, b.start, b.bytes) for b in page.read().buffers]
    assert told == [("cache", 4096, 100), ("compute", 1 << 20, 300)]


def test_unused_thread_entries_are_left_out():
    page = two_copies(threads=3)
    page.layout.thread[1].tid = 9
    assert [reads.tid for reads in page.read().threads] == [9]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"magic": b"NUMALIA"}, "does not begin with its mark"),
        ({"version": 2}, "version 2"),
        ({"bytes": 64}, "64 bytes"),
        ({"state": 99}, "state = 99"),
        ({"copies": 65}, "copies = 65"),
        ({"threads": 4_000_000_000}, "threads = 4000000000"),
    ],
)
def test_a_page_that_cannot_be_right_is_named(fields, said):
    with pytest.raises(NumaMirrorError, match=said):
        Page(**fields).read()


def test_a_page_shorter_than_the_struct_is_not_believed(tmp_path):
    short = tmp_path / "page"
    short.write_bytes(bytes(two_copies().layout)[:16])
    descriptor = os.open(short, os.O_RDONLY)
    try:
        with pytest.raises(NumaMirrorError, match="ends after 16 bytes"):
            read_status(descriptor)
    finally:
        os.close(descriptor)


def test_escape_sequences_in_the_page_do_not_reach_the_terminal():
    status = Page(reason=b"\x1b[2J gone", engine=b"/x/lib\x1b[2J.so").read()
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as capture:
        console.print(render_mirror(status), render_verdicts(judge_mirror(status)))
    shown = capture.get()
    assert "\x1b" not in shown and r"\x1b[2J gone" in shown
    assert mirror_json(status)["reason"] == "\x1b[2J gone"


@given(st.binary(max_size=ctypes.sizeof(StatusLayout)), st.booleans())
def test_any_bytes_are_a_status_or_a_message(junk, with_header):
    raw = bytearray(ctypes.sizeof(StatusLayout))
    raw[: len(junk)] = junk
    if with_header:
        raw[:16] = bytes(Page().layout)[:16]
    raw[16] &= 0xFE  # an even lock: an odd one is waited for
    descriptor = os.memfd_create("fuzz")
    try:
        os.write(descriptor, raw)
        status = read_status(descriptor)
    except NumaMirrorError:
        return
    finally:
        os.close(descriptor)
    assert status.locality is None or status.locality >= 0


def test_reading_leaves_the_offset_of_a_shared_descriptor_alone():
    descriptor = os.memfd_create("numamirror-status")
    os.write(descriptor, bytes(two_copies().layout))
    os.lseek(descriptor, 5, os.SEEK_SET)
    read_status(descriptor)
    assert os.lseek(descriptor, 0, os.SEEK_CUR) == 5
    os.close(descriptor)


HOLDER = """
import os, sys, time
if sys.argv[1] == "memfd":
    fd = os.memfd_create("numamirror-status")
else:
    fd = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR)
    other = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR)
os.ftruncate(fd, int(sys.argv[2]))
print("ready", flush=True)
if sys.argv[3] == "child" and os.fork() == 0:
    print(os.getpid(), flush=True)
time.sleep(600)
"""


def held_page(kind: str, holder: str) -> tuple[subprocess.Popen[bytes], int, Path]:
    """A process with an empty status page, the pid that is asked, and the page's path."""
    size = str(ctypes.sizeof(StatusLayout))
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, kind, size, holder], stdout=subprocess.PIPE
    )
    assert child.stdout and child.stdout.readline() == b"ready\n"
    asked = int(child.stdout.readline()) if holder == "child" else child.pid
    fd = next(
        entry
        for entry in sorted(Path(f"/proc/{child.pid}/fd").iterdir())
        if "numamirror-status" in str(entry.readlink()) or "/#" in str(entry.readlink())
    )
    return child, asked, fd


@pytest.mark.parametrize("kind", ["memfd", "unnamed file"])
def test_a_page_is_found_among_many_descriptors(kind):
    child, _, page = held_page(kind, "itself")
    try:
        page.write_bytes(bytes(two_copies(pid=child.pid).layout))
        status = read_mirror_status(child.pid)
    finally:
        child.kill()
        child.wait()
    assert status is not None
    assert status.state == "mirrored"
    assert [copy.role for copy in status.copies] == ["replica", "primary"]


def test_a_page_that_a_forked_child_inherited_is_not_its_own():
    child, grandchild, page = held_page("memfd", "child")
    try:
        page.write_bytes(bytes(two_copies(pid=child.pid).layout))
        assert read_mirror_status(child.pid) is not None
        assert read_mirror_status(grandchild) is None
    finally:
        os.kill(grandchild, signal.SIGKILL)
        child.kill()
        child.wait()
