"""People read numastat's table from habit: ours has its rows, units and widths to the character."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from numamirror_cli.memory.numa_maps import parse_numa_maps, read_numa_maps
from numamirror_cli.memory.placement import NodeBytes, Placement, add_up
from numamirror_cli.report.placement import placement_json, render_placement
from tests.unit.launch.listener import eventually
from tests.unit.report.real_numastat import need_numastat, numastat_on

MAPS = """\
7f2000000000 bind:0 file=/models/m.gguf mapped=1748992 mapmax=1 active=0 N1=1748992 kernelpagesize_kB=4
7f0000000000 default file=/anon_hugepage\\040(deleted) huge anon=10 dirty=10 N0=5 N1=5 kernelpagesize_kB=2048
7f3000000000 default heap anon=17 dirty=17 N0=10 N4=7 kernelpagesize_kB=4
7ffd00000000 default stack anon=10 dirty=10 active=0 N9=10 kernelpagesize_kB=4
7f90cf000000 default file=/usr/lib/libc.so.6 mapped=200 mapmax=90 N8=200 kernelpagesize_kB=4
7f90d0000000 interleave:0-1 anon=300 dirty=300 N0=150 N1=150 kernelpagesize_kB=4
7f90e0000000 default file=/usr/lib/heap.so
"""  # noqa: E501


def printed(renderable: object, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    console.print(renderable)
    return console.file.getvalue()


def by_lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


@pytest.mark.parametrize("width", [62, 64, 65, 66, 80, 81, 82, 97, 200])
@pytest.mark.parametrize("nodes", [[0], [0, 1], [0, 1, 4, 5, 8, 9]])
def test_the_table_is_numastats_to_the_character(nodes, width, tmp_path):
    maps = "".join(
        line + "\n"
        for line in MAPS.splitlines()
        # numastat crashes on nodes without a directory: a case for the next test.
        if not any(f" N{node}=" in line for node in {0, 1, 4, 5, 8, 9} - set(nodes))
    )
    pid, theirs = numastat_on(tmp_path, maps, nodes, width)
    ours = render_placement(add_up(parse_numa_maps(maps.splitlines()), nodes), pid, "sleep")
    assert by_lines(printed(ours, width)) == by_lines(theirs)


def test_a_live_process_has_numastats_numbers(tmp_path):
    numastat = need_numastat()
    code = "import time; m = bytearray(48 << 20); print('up', flush=True); time.sleep(600)"
    child = subprocess.Popen(["python3", "-c", code], stdout=subprocess.PIPE)
    assert child.stdout and child.stdout.readline()
    nodes = [
        int(entry.name[4:])
        for entry in Path("/sys/devices/system/node").iterdir()
        if entry.name.startswith("node")
    ]
    looks: list[Placement] = []
    theirs = ""

    def nothing_moved() -> bool:
        """The kernel may take a page back or move one at any time: not between these looks."""
        nonlocal theirs
        looks.append(add_up(read_numa_maps(child.pid), nodes))
        theirs = subprocess.check_output(
            [numastat, "-p", str(child.pid)], text=True, env={**os.environ, "NUMASTAT_WIDTH": "80"}
        )
        looks.append(add_up(read_numa_maps(child.pid), nodes))
        return looks[-2] == looks[-1]

    try:
        eventually(nothing_moved, "the process to rest")
    finally:
        child.kill()
        child.wait()
    ours = printed(render_placement(looks[-1], child.pid, "python3"), 80)
    assert by_lines(ours) == by_lines(theirs)
    assert looks[-1].total.total > 48 << 20


def test_pages_on_a_node_without_a_directory_get_a_column():
    """numastat 2.0.19 crashes here."""
    maps = "7f00 default anon=512 N0=256 N7=256 kernelpagesize_kB=4"
    table = printed(render_placement(add_up(parse_numa_maps([maps]), [0]), 1, "x"), 80)
    assert table.splitlines()[2].split() == ["Node", "0", "Node", "7", "Total"]
    assert table.splitlines()[-1].split() == ["Total", "1.00", "1.00", "2.00"]


def test_huge_pages_of_another_than_the_default_size_are_right():
    """numastat counts every huge page in the machine's default size."""
    maps = "7f00 default file=/x huge dirty=3 N0=3 kernelpagesize_kB=1048576"
    table = printed(render_placement(add_up(parse_numa_maps([maps]), [0]), 1, "x"), 80)
    assert "Huge                      3072.00         3072.00" in table


def test_eighty_columns_fold_eight_nodes_and_every_part_names_its_rows():
    placement = Placement({n: NodeBytes(private=n << 20) for n in range(8)})
    lines = by_lines(printed(render_placement(placement, 7, "engine"), 80))
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("Private") for line in lines) == 3
    assert [w for line in lines if "Node " in line for w in line.split() if w.isdigit()] == [
        str(n) for n in range(8)
    ]


def test_a_process_name_cannot_steer_the_terminal():
    table = printed(render_placement(Placement({}), 7, "evil\x1b[2J"), 80)
    assert "\x1b" not in table
    assert "evil\\x1b[2J" in table


def test_the_json_is_bytes_by_node_id():
    placement = Placement({0: NodeBytes(1, 2, 3, 4), 9: NodeBytes()})
    assert placement_json(placement) == {
        "0": {"huge": 1, "heap": 2, "stack": 3, "private": 4},
        "9": {"huge": 0, "heap": 0, "stack": 0, "private": 0},
    }
