"""`numamirror bench`: measured on this machine for real, kept, shown, and refused where it must."""

from __future__ import annotations

import json
import os
import pwd
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

import numamirror_cli.report
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.plan.bench_result import (
    BenchResult,
    Cell,
    Identity,
    NodeIdentity,
    Spread,
    bandwidth_of,
    from_json,
    to_json,
)
from numamirror_cli.plan.bench_store import bench_file, load, load_for, store
from numamirror_cli.plan.measure import Side, bytes_for, cache_bytes, find_program, measure_pair
from numamirror_cli.report.bench import condition_lines, render_bench, summary_lines
from numamirror_cli.report.bench_svg import bench_svg
from numamirror_cli.report.console import print_report
from tests.unit.launch.conftest import environment

GOLDEN = Path(__file__).parents[1] / "golden"
SCHEMAS = Path(numamirror_cli.report.__file__).parent / "schema"
MIB = 1 << 20


def spread(value: float) -> Spread:
    return Spread(value * 0.9, value, value * 1.1)


def result(nodes: int = 2) -> BenchResult:
    """Two nodes to a socket, 137 GB/s to the own memory, 110 beside it, 47.7 elsewhere."""
    figures = ((137.0, 21.0, 96.1), (110.0, 17.0, 120.0), (47.7, 12.2, 212.0))
    cells = []
    for reader in range(nodes):
        for memory in range(nodes):
            near = nodes > 2 and reader // 2 == memory // 2
            rate, one, latency = figures[0 if reader == memory else 1 if near else 2]
            spreads = spread(rate), spread(one), spread(latency)
            cells.append(Cell(reader, memory, 32, *spreads, 1 << 30, 1 << 30, 512, 512))
    identity = Identity(
        "AMD EPYC 7532 32-Core Processor",
        tuple(NodeIdentity(n, f"{32 * n}-{32 * n + 31}") for n in range(nodes)),
    )
    return BenchResult(identity, "6.8.0", 0, 1795964244.0, 0.1, tuple(cells))


@pytest.fixture
def program() -> Path:
    try:
        return find_program()
    except NumaMirrorError as error:
        pytest.skip(f"{error.message}: {error.hint}")


@pytest.fixture
def kept(tmp_path: Path) -> dict[str, str]:
    """An environment with a cache directory of its own, at 80 columns."""
    removed = ("NUMAMIRROR_ROOT", "FORCE_COLOR", "NO_COLOR")
    inherited = {name: value for name, value in os.environ.items() if name not in removed}
    return inherited | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "COLUMNS": "80"}


def numamirror(environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "numamirror_cli", *words],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_this_machine_is_measured_and_the_figures_are_kept(
    program: Path, kept: dict[str, str]
) -> None:
    done = numamirror(kept, "bench", "--json", "--seconds", "0.05")
    assert done.returncode == 0, done.stderr
    measured = from_json(json.loads(done.stdout))
    assert measured.cells
    for cell in measured.cells:
        assert not cell.problem
        assert cell.all and cell.one and cell.latency
        assert cell.all.low <= cell.all.median <= cell.all.high
        # Memory of any machine that runs this, and not the clock or a cache line.
        assert 0.05 < cell.one.median < 500
        assert 5 < cell.latency.median < 20_000
        assert cell.sampled_there == cell.sampled
    again = numamirror(kept, "bench", "--last", "--json")
    assert json.loads(again.stdout) == json.loads(done.stdout)
    page = numamirror(kept, "bench", "--last").stdout
    assert "GB/s" in page
    assert f"numa_balancing {_shown(measured.numa_balancing)}" in page


def _shown(balancing: int | None) -> str:
    return "absent" if balancing is None else str(balancing)


def test_nothing_is_shown_of_a_machine_that_was_not_measured(kept: dict[str, str]) -> None:
    done = numamirror(kept, "bench", "--last")
    assert done.returncode == 1
    assert "not measured yet" in done.stderr
    assert done.stdout == ""


def test_figures_of_memory_that_lies_elsewhere_are_not_given(program: Path) -> None:
    """Node 1023 is on no machine: mbind is refused, and the sample finds the pages elsewhere."""
    cpu = min(os.sched_getaffinity(0))
    reader, memory = Side(0, (cpu,), MIB), Side(1023, (cpu,), 16 * MIB)
    *_, last = measure_pair(program, reader, memory, bound=True, seconds=0.02, root=Path("/"))
    assert "0 of 512 sampled pages on node 1023" in last.problem
    assert last.all is None


def test_a_cpu_that_is_not_there_is_the_problem_of_its_pair(program: Path) -> None:
    side = Side(0, (4095,), 16 * MIB)
    *_, last = measure_pair(program, side, side, bound=False, seconds=0.02, root=Path("/"))
    assert "a thread on each CPU" in last.problem


def test_more_memory_is_read_than_the_caches_hold(tmp_path: Path) -> None:
    for cpu in range(4):
        cache = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/cache/index3"
        cache.mkdir(parents=True)
        (cache / "size").write_text("131072K\n")
        (cache / "shared_cpu_list").write_text("0-1\n" if cpu < 2 else "2-3\n")
    assert cache_bytes(range(4), tmp_path) == 256 * MIB
    assert cache_bytes([9], tmp_path) == 0
    plenty, little = Side(0, (0,), 1 << 40), Side(0, (0,), 300 * MIB)
    assert bytes_for(plenty, 256 * MIB) == 1024 * MIB
    assert bytes_for(plenty, 0) == 256 * MIB
    assert bytes_for(little, 256 * MIB) == 150 * MIB  # half of what the node can spare


def test_what_is_kept_is_what_was_measured(tmp_path: Path) -> None:
    whole = result(4)
    store(whole, tmp_path / "deep/er/bench.json")
    assert load(tmp_path / "deep/er/bench.json") == whole
    assert [path.name for path in (tmp_path / "deep/er").iterdir()] == ["bench.json"]
    assert bandwidth_of(whole).rate(0, 3) == 47.7
    assert bandwidth_of(whole).rate(0, 0, threads=2) == 42.0


def test_another_machine_finds_no_figures_here(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    two = result(2)
    store(two, bench_file(two.identity, environ))
    assert load_for(two.identity, environ) == two
    assert load_for(result(4).identity, environ) is None
    assert load_for(replace(two.identity, cpu="another"), environ) is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1, "cells": 3}'])
def test_a_broken_file_is_named_and_counts_as_none(tmp_path: Path, content: str) -> None:
    environ = {"HOME": str(tmp_path)}
    path = bench_file(result().identity, environ)
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert load_for(result().identity, environ) is None
    with pytest.raises(NumaMirrorError, match=path.name):
        load(path)


@pytest.mark.parametrize("nodes", [2, 8])
def test_the_matrix_of_several_nodes(
    nodes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_report(render_bench(result(nodes)))
    shown = capsys.readouterr().out
    assert shown == (GOLDEN / f"bench-{nodes}-nodes.txt").read_text()
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("width", range(34, 80))
def test_on_a_narrow_screen_no_figure_is_parted_from_its_unit(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for nodes in (1, 2):
        print_report(render_bench(result(nodes)))
        shown = capsys.readouterr().out
        assert max(map(len, shown.splitlines())) <= width
        assert re.findall(r"\d *\n *(?:GB/s|ns|%|[KMG]iB)", shown) == []


def test_a_pair_without_figures_is_a_question_mark_and_a_sentence() -> None:
    whole = result()
    cells = (whole.cells[0], Cell(0, 1, problem="mbind is refused"), *whole.cells[2:])
    assert "Node 0 reading node 1: mbind is refused." in list(summary_lines(cells))
    assert not bandwidth_of(replace(whole, cells=cells)).covers((0, 1))


def test_a_busy_machine_and_small_pages_are_said() -> None:
    whole = result()
    cells = tuple(replace(cell, huge_bytes=0, sampled=0, sampled_there=0) for cell in whole.cells)
    said = " ".join(condition_lines(replace(whole, load=3.0, cells=cells)))
    assert "load average was 3.0 before the start: figures may be too low" in said
    assert "not all in huge pages" in said
    assert "could not be asked" in said


def test_the_picture_has_every_figure() -> None:
    root = ElementTree.fromstring(bench_svg(result(4)))
    words = [element.text for element in root.iter() if element.text and element.text.strip()]
    assert words.count("137") == 4
    assert words.count("47.7") == 8
    assert words.count("96.1") == 4


def test_the_json_keeps_its_promise() -> None:
    document: dict[str, Any] = to_json(result())
    schema = json.loads((SCHEMAS / "bench-1.json").read_text())
    as_printed = json.loads(json.dumps(document))
    jsonschema.validate(as_printed, schema, cls=jsonschema.Draft202012Validator)
    del as_printed["cells"][0]["problem"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(as_printed, schema, cls=jsonschema.Draft202012Validator)
    assert document["cells"][1]["all"]["median"] == 47.7
    assert from_json(json.loads(json.dumps(document))) == result()


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        ({"XDG_CACHE_HOME": "/x", "HOME": "/home/a"}, "/x"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/a"}, "/home/a/.cache"),
        ({"HOME": "/home/a"}, "/home/a/.cache"),
        ({"HOME": ""}, f"{pwd.getpwuid(os.getuid()).pw_dir}/.cache"),
        ({}, f"{pwd.getpwuid(os.getuid()).pw_dir}/.cache"),
    ],
)
def test_results_are_kept_where_the_users_cache_is(environ: dict[str, str], directory: str) -> None:
    assert bench_file(result().identity, environ).parent == Path(directory, "numamirror")


def test_a_user_of_no_name_and_no_home_as_in_many_containers_has_no_result() -> None:
    """Until they set XDG_CACHE_HOME."""
    code = (
        "import os, sys\n"
        "from numamirror_cli.plan.bench_store import bench_file, load_for\n"
        "from tests.unit.plan.test_bench import result\n"
        "os.setresuid(12345, 12345, 12345)\n"
        "print(bench_file(result().identity, {}).parent, load_for(result().identity, {}))\n"
    )
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.stdout == "/.cache/numamirror None\n", done.stderr
