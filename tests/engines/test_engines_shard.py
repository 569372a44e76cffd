"""Shard on real engines, as a rehearsal: same output, fixed rows, each read by its thread."""

from __future__ import annotations

import ctypes
import functools
import json
import mmap
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from rig import (
    REPOSITORY,
    Engine,
    driver_line,
    finished,
    gemm_bytes_in,
    model_path,
    numamirror_run,
    run_plain,
)

from numamirror_cli.engine.shim import find_shim
from tests.guest.kernel_view import memory_of

SHARD = ("--rehearse", "2", "--strategy", "shard", "--min-size", "1")
# What the shim counts and prints at its end: rows, and those read by the thread they belong to.
COUNT_OWNERS = {"NUMAMIRROR_LOG": "1", "NUMAMIRROR_TEST_OWNERS": "1"}

# One library in Python; CPU variants loaded at run time; a program with shared libraries.
SHAPES = ("xllamacpp", "node_llama_cpp", "llama_server")
# Mapped from the file, and repacked into anonymous memory.
MODELS = ("moe-Q8_0", "moe-Q4_0")


@dataclass(frozen=True)
class Sharded:
    """line: what the driver printed; report: of `run --json`; shim: its events, as it printed."""

    line: dict[str, Any]
    report: dict[str, Any]
    shim: list[dict[str, Any]]

    def said(self) -> str:
        notes = [event for event in self.report["events"] if event["event"] == "note"]
        return " ".join(f"{note['what']}: {note['why']}" for note in notes)


@functools.cache
def run_sharded(engine: Engine, model: str, *options: str) -> Sharded:
    with TemporaryDirectory() as scratch:
        report = Path(scratch) / "run.json"
        command = [*numamirror_run(report, *SHARD), *engine.command(model, *options)]
        done = finished(command, COUNT_OWNERS)
        return Sharded(driver_line(done), json.loads(report.read_text()), printed(done.stderr))


def printed(stderr: str) -> list[dict[str, Any]]:
    lines = (line.partition('numamirror: {"v":1') for line in stderr.splitlines())
    return [json.loads('{"v":1' + rest) for _, mark, rest in lines if mark]


@pytest.fixture(params=SHAPES)
def shape(request: pytest.FixtureRequest) -> Engine:
    engine: Engine = request.getfixturevalue(request.param)
    return engine


@pytest.mark.parametrize("model", MODELS)
def test_every_shape_of_engine_can_be_sharded(shape: Engine, model: str) -> None:
    sharded = run_sharded(shape, model)
    mirror = sharded.report["mirror"]
    assert sharded.line == run_plain(shape, model)
    assert mirror["sharded_bytes"] == gemm_bytes_in(model)
    assert {node["role"] for node in mirror["nodes"].values()} == {"shard"}


def test_each_row_is_read_by_the_thread_that_it_was_placed_for(shape: Engine) -> None:
    owners = [event for event in run_sharded(shape, "moe-Q8_0").shim if event["event"] == "owners"]
    counted = max(owners, key=lambda event: int(event["rows"]))
    assert counted["rows"] > 1000
    assert counted["by_owner"] >= 0.98 * counted["rows"]


two_cpus = pytest.mark.skipif(
    not {0, 1} <= os.sched_getaffinity(0), reason="needs CPUs 0 and 1, to be two copies' readers"
)


def on_one_node() -> dict[str, str]:
    """No rehearsal, which has no nodes to take memory from: two copies on node 0, a CPU each."""
    return {
        "NUMAMIRROR_ABI": "1",
        "NUMAMIRROR_COPIES": "0=0;0=1",
        "NUMAMIRROR_STRATEGY": "shard",
        "NUMAMIRROR_LOG": "1",
        "LD_PRELOAD": str(find_shim(os.environ).path),
    }


@two_cpus
def test_large_repacked_matrices_get_huge_pages_before_the_engine_writes_them(
    shape: Engine,
) -> None:
    """Tried again where there were none just when they were asked for."""
    to_be_had = [are_huge_pages_to_be_had()]
    for _ in range(3):
        done = finished(shape.command("wide-dense-Q4_0"), on_one_node())
        placed = [event for event in printed(done.stderr) if event["event"] == "placed"]
        assert driver_line(done) == run_plain(shape, "wide-dense-Q4_0")
        assert placed[0]["local"] == placed[0]["pages"]
        to_be_had.append(are_huge_pages_to_be_had())
        if placed[0]["huge_bytes"] >= 2 << 20 or not all(to_be_had):
            return
    pytest.fail("huge pages were to be had before and after each of three runs, and none was taken")


def are_huge_pages_to_be_had() -> bool:
    return huge_bytes_to_be_had(32 << 20) == 32 << 20


def huge_bytes_to_be_had(count: int) -> int:
    """How much of so many bytes the kernel gives as huge pages now: whether any are free is its
    memory's history, and no merit of ours."""
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with mmap.mmap(-1, count + (2 << 20), private) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        before = huge_bytes_of_this_process()
        for at in range(0, len(memory), mmap.PAGESIZE):
            memory[at] = 1
        return min(count, huge_bytes_of_this_process() - before)


def huge_bytes_of_this_process() -> int:
    lines = Path("/proc/self/smaps").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("AnonHugePages:"))


@two_cpus
def test_where_pages_may_not_be_moved_nothing_is_called_local_and_the_output_is_the_same(
    xllamacpp: Engine,
) -> None:
    refuse = [sys.executable, str(REPOSITORY / "tests/reliability/refuse.py"), "move_pages=EPERM"]
    done = finished([*refuse, "--", *xllamacpp.command("moe-Q8_0")], on_one_node())
    events = printed(done.stderr)
    placed = [event for event in events if event["event"] == "placed"]
    notes = [event["why"] for event in events if event["event"] == "note"]
    assert driver_line(done) == run_plain(xllamacpp, "moe-Q8_0")
    assert [event["local"] for event in placed] == [0]
    assert any("move_pages: EPERM" in why for why in notes)


@two_cpus
def test_many_experts_take_as_much_memory_sharded_and_no_mapping_for_each(
    xllamacpp: Engine,
) -> None:
    plain, sharded = memory_while_held({}), memory_while_held(on_one_node())
    assert sharded["resident"] == pytest.approx(plain["resident"], rel=0.03)
    assert sharded["mappings"] - plain["mappings"] < 100


def without_huge_pages() -> None:
    """prctl(2), PR_SET_THP_DISABLE: what they round up to differs from run to run."""
    assert ctypes.CDLL(None).prctl(41, 1, 0, 0, 0) == 0


def memory_while_held(variables: dict[str, str]) -> dict[str, int]:
    """Of an engine that has generated twice, with 128 experts in each of 6 matrices."""
    model = str(model_path("many-moe-Q4_0"))
    command = [sys.executable, str(REPOSITORY / "tests/guest/hold_engine.py"), model, "2"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    variables = os.environ | variables
    with subprocess.Popen(
        command, env=variables, preexec_fn=without_huge_pages, text=True, **pipes
    ) as engine:
        first, pid = engine.stdout.readline(), json.loads(engine.stdout.readline())["pid"]
        print("again", file=engine.stdin, flush=True)
        assert engine.stdout.readline() == first
        memory = memory_of(pid, model)
        engine.stdin.close()
    return memory


def test_the_run_says_for_how_many_threads_rows_were_placed_and_how_long_it_took(
    xllamacpp: Engine,
) -> None:
    events = run_sharded(xllamacpp, "moe-Q8_0").report["events"]
    placed = [event for event in events if event["event"] == "placed"]
    assert [event["threads"] for event in placed] == [2]
    assert placed[0]["ns"] > 0


def test_what_an_odd_number_of_threads_costs_is_said(xllamacpp: Engine) -> None:
    sharded = run_sharded(xllamacpp, "moe-Q8_0", "--threads", "3")
    assert sharded.line == run_plain(xllamacpp, "moe-Q8_0", "--threads", "3")
    assert "3 threads do not divide among 2 nodes" in sharded.said()
    assert "reads 67 % of every weight, 1.33 times an even share" in sharded.said()


def test_an_even_number_of_threads_needs_no_words(xllamacpp: Engine) -> None:
    assert "do not divide" not in run_sharded(xllamacpp, "moe-Q8_0").said()


def test_ik_llama_runs_as_it_is_and_says_why_it_cannot_be_sharded(ik_llama: Engine) -> None:
    sharded = run_sharded(ik_llama, "moe-Q8_0")
    assert sharded.line == run_plain(ik_llama, "moe-Q8_0")
    assert "(of a version that it does not tell): shard is not possible" in sharded.said()
    assert sharded.report["mirror"]["sharded_bytes"] == 0
