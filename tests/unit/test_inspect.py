"""`numamirror inspect PID`: what a person or a program reads, on replayed and on live processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from numamirror_cli.cli import cli
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.memory.inspection import inspect_process
from numamirror_cli.report.judgement import judge
from tests.unit.conftest import write
from tests.unit.launch.listener import kthreadd_is_seen
from tests.unit.memory.as_nobody import as_nobody
from tests.unit.memory.replay import PID, case, two_node_root, write_process
from tests.unit.report.test_mirror_table import MIRRORED

GOLDEN = Path(__file__).parent / "golden"
MIB = 1 << 20
PAGE_OF_4K = "kernelpagesize_kB=4"


def inspect(*arguments: object) -> Result:
    """The command as a user runs it on an 80-column terminal; errors of ours are raised."""
    result = CliRunner().invoke(
        cli, ["inspect", *map(str, arguments)], env={"COLUMNS": "80", "NO_COLOR": "1"}
    )
    if isinstance(result.exception, NumaMirrorError):
        raise result.exception
    return result


def words(text: str) -> str:
    """Text without line breaks and indentation."""
    return " ".join(text.split())


def report(root: Path, pid: int = PID) -> str:
    result = inspect(pid, "--root", root)
    assert result.exit_code == 0, result.output
    return words(result.stdout)


def document(root: Path, pid: int = PID) -> dict[str, object]:
    result = inspect(pid, "--root", root, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def verdicts(root: Path) -> str:
    return "\n".join(f"{v['level']}: {v['text']}" for v in document(root)["verdict"])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return two_node_root(tmp_path)


def anonymous(start: int, by_node_mb: Mapping[str, float]) -> tuple[str, str]:
    """numa_maps and maps lines of one anonymous mapping with those MB per node."""
    pages = {node: round(mb * MIB / 4096) for node, mb in by_node_mb.items()}
    counts = " ".join(f"N{node}={count}" for node, count in pages.items())
    end = start + sum(pages.values()) * 4096
    return (
        f"{start:x} default anon={sum(pages.values())} {counts} {PAGE_OF_4K}\n",
        f"{start:x}-{end:x} rw-p 00000000 00:00 0\n",
    )


def with_model(root: Path, size: int) -> None:
    """A sparse model file of that size where the process finds /models/m.gguf."""
    model = root / f"proc/{PID}/root/models/m.gguf"
    model.parent.mkdir(parents=True)
    with model.open("wb") as file:
        file.truncate(size)


def test_p01_weights_on_one_node_and_threads_on_the_other_are_remote(root, shared_dir):
    given = case(shared_dir, "P01")
    write_process(root, given["line"] + "\n", cpus=(0, 1, 2, 3))
    said = verdicts(root)
    assert "bad: 100 % of 6.7 GiB of weights on node 1, threads on node 0: remote" in said
    assert "bind:0 does not move cached pages" in said
    assert "numamirror run -- llama-server -m /models/m.gguf" in report(root)


def test_p02_huge_pages_stand_in_their_row(root, shared_dir):
    write_process(root, case(shared_dir, "P02")["line"] + "\n")
    row = next(line for line in inspect(PID, "--root", root).stdout.splitlines() if "Huge" in line)
    assert row.split() == ["Huge", "10.00", "10.00", "20.00"]


def test_p03_library_pages_on_another_node_are_not_held_against_the_policy(root, shared_dir):
    line = case(shared_dir, "P03")["line"]
    weights = f"7f2000000000 bind:1 file=/models/m.gguf mapped=99999 N1=99999 {PAGE_OF_4K}\n"
    library = "7f90cf000000-7f90cf0c8000 r-xp 00000000 fe:00 9 /usr/lib/libc.so.6\n"
    write_process(root, weights + line + "\n", maps=library, cpus=(8, 9))
    shown = document(root)
    assert shown["placement_bytes"]["3"]["private"] == 200 * 4096
    assert [b["kind"] for b in shown["buffers"]] == ["weights", "library"]
    local = "ok: 100 % of 391 MiB of weights on node 1, where its threads run: local"
    assert verdicts(root) == local


def test_p04_weights_spread_over_two_nodes_are_not_a_mirror(root, shared_dir):
    given = case(shared_dir, "P04")
    lines, maps = anonymous(0x7F0000000000, given["totals_mb"])
    write_process(root, lines, maps=maps, cpus=(0, 8))
    with_model(root, given["weights_gb"] * 1000 * MIB)
    assert document(root)["weights"]["copies"] == pytest.approx(given["right"]["copies"], abs=0.005)
    assert "warn: 1.02 copies" in verdicts(root)
    assert "spread over 2 nodes, NOT mirrored" in verdicts(root)
    assert "Copies 1.02 of the weights" in report(root)


def test_p05_a_whole_copy_on_each_node_is_a_mirror_whoever_made_it(root, shared_dir):
    given = case(shared_dir, "P05")
    lines, maps = anonymous(0x7F0000000000, given["totals_mb"])
    write_process(root, lines, maps=maps, cpus=(0, 8))
    with_model(root, given["weights_gb"] * 1000 * MIB)
    assert document(root)["weights"]["copies"] == given["right"]["copies"]
    assert verdicts(root) == "ok: 2.0 copies of 371 GiB on nodes 0-1: mirrored"


def test_p06_nothing_is_shown_of_a_process_that_may_not_be_read():
    victim = subprocess.Popen(["sleep", "60"])
    try:
        said = as_nobody(lambda: inspect(victim.pid).output)
    finally:
        victim.kill()
        victim.wait()
    assert f"NumaMirrorError: not allowed to read /proc/{victim.pid}/" in said
    assert "0.00" not in said


def test_p07_anonymous_weights_are_judged_by_their_size(root):
    lines, maps = anonymous(0x7F0000000000, {"1": 500_000})
    write_process(root, lines, maps=maps, arguments=("engine", "--direct-io"), cpus=(0, 8))
    said = verdicts(root)
    assert "100 % of 488 GiB of anonymous memory, taken for weights by its size on node 1" in said
    assert "threads on nodes 0-1" in said


def test_p08_a_model_that_is_still_faulting_in_is_not_final(root, shared_dir):
    pages = 93_000_000_000 // 4096
    mapped = 660_000_000_000 // 4096 * 4096
    start = 0x7E0000000000
    write_process(
        root,
        f"{start:x} default file=/models/m.gguf mapped={pages} N0={pages} {PAGE_OF_4K}\n",
        maps=f"{start:x}-{start + mapped:x} r--s 00000000 fe:00 12 /models/m.gguf\n",
    )
    share = document(root)["weights"]["faulted_share"]
    percent = case(shared_dir, "P08")["right"]["faulted_in_percent"]
    assert round(share * 100) == percent
    assert f"warn: {percent} % of 615 GiB faulted in: placement is not final" in verdicts(root)
    assert f"numamirror inspect {PID} --until-settled" in report(root)


def test_anonymous_memory_without_a_known_model_is_not_counted_in_copies(root):
    lines, maps = anonymous(0x7F0000000000, {"0": 5000, "1": 5000})
    write_process(root, lines, maps=maps, arguments=("database",), cpus=(0, 8))
    assert document(root)["weights"]["copies"] is None
    assert "how many copies that makes is not known" in verdicts(root)
    assert "if these are weights: numamirror run -- database" in report(root)


@pytest.mark.parametrize(("on_node_1", "level"), [(6500, "ok"), (1000, "warn")])
def test_an_engine_that_mirrors_by_itself_is_judged_by_what_the_kernel_shows(
    root, on_node_1, level
):
    pages = 7000 * MIB // 4096
    lines, maps = anonymous(0x7F0000000000, {"1": on_node_1})
    start = 0x7E0000000000
    write_process(
        root,
        f"{start:x} default file=/models/m.gguf mapped={pages} N0={pages} {PAGE_OF_4K}\n{lines}",
        maps=f"{start:x}-{start + 7000 * MIB:x} r--s 00000000 fe:00 12 /models/m.gguf\n{maps}",
        arguments=("llama-server", "--numa", "mirror", "-m", "/models/m.gguf"),
        cpus=(0, 8),
    )
    shares = {6500: "93 %", 1000: "14 %"}
    said = verdicts(root)
    assert said.startswith(f"{level}: the engine mirrors by itself (--numa mirror)")
    assert f"node 0 100 %, node 1 {shares[on_node_1]}" in said


def test_a_split_model_is_measured_by_all_its_parts(root):
    lines, maps = anonymous(0x7F0000000000, {"0": 300, "1": 300})
    arguments = ("engine", "--model=m-00002-of-00003.gguf")
    write_process(root, lines, maps=maps, arguments=arguments)
    for part in (1, 2, 3):
        path = root / f"proc/{PID}/cwd/m-0000{part}-of-00003.gguf"
        write(path, "")
        os.truncate(path, 100 * MIB)
    assert document(root)["weights"]["copies"] == 2.0


def test_threads_on_cpus_of_no_node_are_not_called_near_or_far(root):
    line = f"7f2000000000 prefer:1 file=/models/m.gguf mapped=99999 N1=99999 {PAGE_OF_4K}\n"
    write_process(root, line, cpus=(99,))
    said = verdicts(root)
    assert said == "warn: 100 % of 391 MiB of weights on node 1; where its threads run is not known"


def test_weights_under_the_threads_are_local(root):
    line = f"7f2000000000 prefer:1 file=/models/m.gguf mapped=99999 N1=99999 {PAGE_OF_4K}\n"
    write_process(root, line, cpus=(8, 9, 10))
    local = "ok: 100 % of 391 MiB of weights on node 1, where its threads run: local"
    assert verdicts(root) == local


@pytest.mark.parametrize("state", ["inert", "off"])
def test_an_engine_that_the_shim_left_alone_is_to_be_checked_not_started_again(root, state):
    """It was started with `numamirror run` already: that is no remedy a second time."""
    line = "7f2000000000 default file=/m.gguf mapped=9000 N1=9000 kernelpagesize_kB=4"
    write_process(root, line + "\n", cpus=(0,))
    plain = inspect_process(PID, root)
    left_alone = replace(MIRRORED, state=state, reason="seams do not fire", copies=())
    found = judge(replace(plain, mirror=left_alone))
    assert [v.remedy for v in judge(plain)] == ["numamirror run -- llama-server -m /models/m.gguf"]
    assert found[0].text == "NOT mirrored: seams do not fire"
    assert [v.remedy for v in found] == [f"numamirror check {PID}", ""]
    assert found[1].text == judge(plain)[0].text


def test_automatic_balancing_is_warned_of_with_its_command(root):
    write(root / "proc/sys/kernel/numa_balancing", "1\n")
    line = f"7f2000000000 prefer:1 file=/models/m.gguf mapped=99999 N1=99999 {PAGE_OF_4K}\n"
    write_process(root, line, cpus=(8,))
    assert "warn: kernel.numa_balancing is 1" in verdicts(root)
    assert "sudo sysctl kernel.numa_balancing=0" in report(root)


def test_on_one_node_there_is_nothing_to_warn_of(tmp_path):
    root = two_node_root(tmp_path, {0: {"cpus": "0-15"}})
    write(root / "proc/sys/kernel/numa_balancing", "1\n")
    lines, maps = anonymous(0x7F0000000000, {"0": 5000})
    write_process(root, lines, maps=maps)
    assert [v["level"] for v in document(root)["verdict"]] == ["ok"]


def test_garbage_in_numa_maps_is_named_and_the_rest_is_used(root):
    good = f"7f2000000000 default anon=512 N1=512 {PAGE_OF_4K}\n"
    write_process(root, good + "7f3 default N0=x\x1b[2J\n" + good.replace("7f2", "7f4"))
    result = inspect(PID, "--root", root)
    assert f"Note /proc/{PID}/line 2 ignored (not a count: N0=x" in words(result.stdout)
    assert "\x1b" not in result.stdout
    assert "4.00" in result.stdout


def test_locked_memory_is_shown():
    code = (
        "import ctypes, mmap\nm = mmap.mmap(-1, 72 << 20, flags=mmap.MAP_PRIVATE)\n"
        "m[:] = b'x' * len(m)\n"
        "a = ctypes.addressof(ctypes.c_char.from_buffer(m))\n"
        "r = ctypes.CDLL(None).mlock(ctypes.c_void_p(a), ctypes.c_size_t(len(m)))\n"
        "print(r, flush=True); import time; time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout
    refused = child.stdout.readline() != "0\n"
    try:
        if refused:
            pytest.skip("mlock is refused here (ulimit -l)")
        assert json.loads(inspect(child.pid, "--json").stdout)["locked_bytes"] == 72 * MIB
        shown = words(inspect(child.pid).stdout)
        assert "Locked 72 MiB (mlock); pinned for devices: 0 B" in shown
        assert ", locked)" in shown.partition("anonymous")[2].partition(")")[0] + ")"
    finally:
        child.kill()
        child.wait()


def test_a_page_of_the_report(root):
    """The golden page: buffers split by policies, a replica by its name, a thread that is busy."""
    start = 0x7F2000000000
    page_count = 6832 * MIB // 4096
    weights_end = start + page_count * 4096
    numa_maps = (
        f"55d0c0000000 prefer:1 file=/usr/bin/llama-server mapped=900 N0=900 {PAGE_OF_4K}\n"
        f"55d0c2000000 prefer:1 heap anon=4096 dirty=4096 N1=4096 {PAGE_OF_4K}\n"
        f"{start:x} prefer:1 file=/models/m.gguf mapped={page_count} mapmax=2 N1={page_count}"
        f" {PAGE_OF_4K}\n"
        f"7f4000000000 prefer:0 anon={page_count} dirty={page_count} N0={page_count} {PAGE_OF_4K}\n"
        f"7f6000000000 prefer:1 anon=65536 dirty=65536 N0=512 N1=65024 {PAGE_OF_4K}\n"
        f"7ffd00000000 prefer:1 stack anon=33 dirty=33 N1=33 {PAGE_OF_4K}\n"
    )
    maps = (
        "55d0c0000000-55d0c0400000 r-xp 00000000 fe:00 77 /usr/bin/llama-server\n"
        "55d0c2000000-55d0c3000000 rw-p 00000000 00:00 0 [heap]\n"
        f"{start:x}-{weights_end:x} r--s 00000000 fe:00 12 /models/m.gguf\n"
        f"7f4000000000-{0x7F4000000000 + page_count * 4096:x} rw-p 00000000 00:00 0"
        " [anon:numamirror:replica:node0]\n"
        "7f6000000000-7f6010000000 rw-p 00000000 00:00 0\n"
        "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]\n"
    )
    write_process(root, numa_maps, maps=maps, cpus=(0, 1, 8, 9), state="R")
    shown = "\n".join(line.rstrip() for line in inspect(PID, "--root", root).stdout.splitlines())
    golden = GOLDEN / "inspect-two-nodes.txt"
    if os.environ.get("NUMAMIRROR_GOLDEN") == "write":
        golden.write_text(shown + "\n")
    assert shown + "\n" == golden.read_text()
    assert max(map(len, shown.splitlines())) <= 80


def test_the_json_has_the_agreed_keys(root):
    line = f"7f2000000000 prefer:1 file=/models/m.gguf mapped=99999 N1=99999 {PAGE_OF_4K}\n"
    write_process(root, line, cpus=(0, 8, 9), allowed="0-9")
    shown = document(root)
    assert shown["schema"] == 1
    assert (shown["pid"], shown["command"], shown["policy"]) == (PID, "llama-server", "preferred:1")
    assert shown["numa_balancing"] == 0
    assert shown["placement_bytes"] == {
        "0": {"huge": 0, "heap": 0, "stack": 0, "private": 0},
        "1": {"huge": 0, "heap": 0, "stack": 0, "private": 99999 * 4096},
    }
    assert shown["threads"]["running"] == {"0": 1, "1": 2}
    assert shown["threads"]["allowed_cpus"] == "0-9"
    assert shown["mirror"] is None
    assert set(shown["verdict"][0]) == {"level", "text", "remedy"}


def test_slots_without_a_cpu_are_not_among_the_allowed_ones(root):
    line = f"7f2000000000 prefer:1 file=/models/m.gguf mapped=99999 N1=99999 {PAGE_OF_4K}\n"
    write_process(root, line, allowed="0-255")
    assert document(root)["threads"]["allowed_cpus"] == "0-15"


def run_numamirror(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "numamirror_cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
    )


def test_no_such_process_is_said_with_the_remedy_and_exit_status_1():
    child = subprocess.Popen(["true"])
    child.wait()
    done = run_numamirror("inspect", child.pid)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"numamirror: no process {child.pid}",
        "numamirror: ps -ef shows what runs",
    ]


def test_a_zombie_has_ended_and_is_not_an_empty_process():
    child = subprocess.Popen(["sleep", "0.01"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    try:
        with pytest.raises(NumaMirrorError, match=r"\(sleep\) has ended: it is a zombie"):
            inspect(child.pid)
    finally:
        child.wait()


def test_a_kernel_thread_is_named_as_such(root):
    write_process(root, "", arguments=("kworker",), parent=2)
    write(root / f"proc/{PID}/cmdline", "")
    with pytest.raises(NumaMirrorError, match="has no memory of its own: a kernel thread"):
        inspect(PID, "--root", root)
    if kthreadd_is_seen():
        with pytest.raises(NumaMirrorError, match="a kernel thread"):
            inspect(2)


def test_a_process_that_ends_under_our_eyes_is_never_half_a_table():
    """Each look is a whole table or an error, at whatever moment the process ends."""
    for delay in range(12):
        child = subprocess.Popen([sys.executable, "-c", "m = bytearray(200 << 20)"])
        time.sleep(0.005 * delay)
        try:
            shown = inspect(child.pid).stdout
            assert "Total" in shown
        except NumaMirrorError as error:
            assert str(child.pid) in error.message
        finally:
            child.kill()
            child.wait()


def test_a_live_process_is_judged_and_its_own_status_page_is_found():
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os; fd = os.memfd_create('numamirror-status'); os.write(fd, b'x' * 100_000)\n"
            "print('up', flush=True); import time; time.sleep(60)",
        ],
        stdout=subprocess.PIPE,
    )
    assert child.stdout and child.stdout.readline()
    try:
        shown = words(inspect(child.pid).stdout)
    finally:
        child.kill()
        child.wait()
    assert "warn: the shim's status page does not begin with its mark" in shown
    assert "whether it is mirrored is not known" in shown
