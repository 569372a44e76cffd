"""`topology --draw` and `--svg`: every node and GPU is in the picture, and the picture is sound."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from numamirror_cli.machine.model import Machine
from numamirror_cli.machine.read import read_machine
from numamirror_cli.report.drawing import draw_topology
from numamirror_cli.report.topology_svg import topology_svg

MakeRoot = Callable[..., Path]

DUMPS = [
    "256ppc-8n8s4t",
    "32amd64-4s2n4c-cgroup2",
    "40intel64-2g2n4c+pcilocality",
    "fakememinitiators-1np2c+1npp+gi",
    "nvidiagpunumanodes",
    "offline-cpu0-node0",
]
NODES = {0: {"cpus": "0-3", "free_mib": 256}, 1: {"cpus": "4-7", "free_mib": 1024}}
CARD: dict[str, Any] = {"pci_class": "0x030200", "vendor": "0x10de", "device": "0x2204"}
PCI = [
    {"address": "0000:81:00.0", "numa_node": 1, **CARD},
    {"address": "0000:82:00.0", "numa_node": -1, **CARD},
]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def machine(make_root: MakeRoot) -> Machine:
    root = make_root(NODES, packages={"0-3": 0, "4-7": 1}, pci=PCI)
    names = root / "run/udev/data"
    names.mkdir(parents=True)
    (names / "+pci:0000:81:00.0").write_text(
        "E:ID_MODEL_FROM_DATABASE=Card <1> & [Best & <Card>]\n"
    )
    return read_machine(root, environ={})


def test_the_drawing_of_two_sockets(machine: Machine) -> None:
    assert draw_topology(machine, 80).splitlines() == [
        "┌─ socket 0 ──────────────────────────┐ ┌─ socket 1 ──────────────────────────┐",
        "│ ┌─ node 0, mirror ────────────────┐ │ │ ┌─ node 1, home ──────────────────┐ │",
        "│ │ 1 GiB, 256 MiB free             │ │ │ │ 1 GiB, 1 GiB free               │ │",
        "│ │ ███████████████████████░░░░░░░░ │ │ │ │ ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ │ │",
        "│ │ 4 cores, CPUs 0-3               │ │ │ │ 4 cores, CPUs 4-7               │ │",
        "│ └─────────────────────────────────┘ │ │ │ GPU 0000:81:00.0                │ │",
        "└─────────────────────────────────────┘ │ │     NVIDIA Best & <Card>        │ │",
        "                                        │ └─────────────────────────────────┘ │",
        "                                        └─────────────────────────────────────┘",
        "┌─ node unknown ─────────────┐",
        "│ 0000:82:00.0 NVIDIA 0x2204 │",
        "└────────────────────────────┘",
    ]


def test_a_terminal_without_unicode_gets_plain_characters(machine: Machine) -> None:
    drawing = draw_topology(machine, 80, ascii_only=True)
    assert drawing.isascii()
    assert "| | #######################........ | |" in drawing


@pytest.mark.parametrize("width", [40, 80, 81, 120, 200])
@pytest.mark.parametrize("name", DUMPS)
def test_every_node_is_drawn_within_the_width(
    unpacked_dump: Callable[[str], Path], name: str, width: int
) -> None:
    machine = read_machine(unpacked_dump(name), environ={})
    drawing = draw_topology(machine, width)
    assert max(map(len, drawing.splitlines())) <= width
    drawn = sorted(int(node) for node in re.findall(r"─ node (\d+),", drawing))
    assert drawn == [node.id for node in machine.nodes]
    assert all(gpu.address in drawing for gpu in machine.gpus)


def test_without_numa_there_is_nothing_to_draw(tmp_path: Path) -> None:
    assert draw_topology(read_machine(tmp_path, environ={}), 80) == "no NUMA nodes to draw"


def texts(machine: Machine) -> list[str]:
    """All words of the picture, which must be well-formed XML."""
    tree = ElementTree.parse(io.StringIO(topology_svg(machine)))
    return [element.text or "" for element in tree.iter(f"{SVG}text")]


@pytest.mark.parametrize("name", DUMPS)
def test_the_picture_holds_nodes_gpus_and_distances(
    unpacked_dump: Callable[[str], Path], name: str
) -> None:
    machine = read_machine(unpacked_dump(name), environ={})
    words = texts(machine)
    assert [w for w in words if re.fullmatch(r"Node \d+", w)] == sorted(
        (f"Node {node.id}" for node in machine.nodes),
        key=lambda w: (machine.node(int(w[5:])).socket is None, _place(machine, int(w[5:]))),
    )
    assert all(gpu.address in words for gpu in machine.gpus)
    if len(machine.nodes) > 1:
        shown = [w for w in words[words.index("Distances") :] if w.isdigit()]
        table = [str(node.distances[o.id]) for node in machine.nodes for o in machine.nodes]
        ids = [str(node.id) for node in machine.nodes]
        assert sorted(shown) == sorted(table + ids)


def _place(machine: Machine, node: int) -> tuple[int, int]:
    socket = machine.node(node).socket
    return (-1 if socket is None else socket, node)


def test_names_are_escaped_and_the_reason_is_a_tooltip(machine: Machine) -> None:
    assert "NVIDIA Best & <Card>" in texts(machine)
    titles = ElementTree.parse(io.StringIO(topology_svg(machine))).iter(f"{SVG}title")
    assert "Card <1> & [Best & <Card>]: votes for node 1" in [title.text for title in titles]


def test_memory_bars_are_as_long_as_memory_is_used(machine: Machine) -> None:
    tree = ElementTree.parse(io.StringIO(topology_svg(machine)))
    widths = {"#7a8ea3": [], "#dde5ec": []}  # used, free
    for bar in tree.iter(f"{SVG}rect"):
        if bar.get("height") == "14":
            widths[bar.attrib["fill"]].append(float(bar.attrib["width"]))
    # Three quarters of node 0 are used, nothing of node 1.
    assert [used / widths["#dde5ec"][0] for used in widths["#7a8ea3"]] == [0.75]


def test_nothing_sticks_out_of_the_picture(unpacked_dump: Callable[[str], Path]) -> None:
    for name in DUMPS:
        machine = read_machine(unpacked_dump(name), environ={})
        root = ElementTree.fromstring(topology_svg(machine))
        right, bottom = max_extent(root, 0, 0)
        assert right <= float(root.attrib["width"])
        assert bottom <= float(root.attrib["height"])


def max_extent(element: ElementTree.Element, x: float, y: float) -> tuple[float, float]:
    """Right and lower end of all rectangles, translations followed."""
    if match := re.fullmatch(r"translate\((\S+) (\S+)\)", element.get("transform", "")):
        x, y = x + float(match[1]), y + float(match[2])
    extents = [max_extent(child, x, y) for child in element]
    if element.tag == f"{SVG}rect":
        here = {name: float(element.attrib[name]) for name in ("x", "y", "width", "height")}
        extents.append((x + here["x"] + here["width"], y + here["y"] + here["height"]))
    return max((e[0] for e in extents), default=0), max((e[1] for e in extents), default=0)


def test_without_numa_the_picture_says_so(tmp_path: Path) -> None:
    words = texts(read_machine(tmp_path, environ={}))
    assert words == ["No NUMA nodes", "this kernel exposes no NUMA nodes"]


def test_a_picture_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    target = tmp_path / "absent/picture.svg"
    result = subprocess.run(
        [sys.executable, "-m", "numamirror_cli", "topology", "--svg", str(target)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        check=False,
    )
    assert result.returncode == 1
    said, remedy = result.stderr.splitlines()
    assert said == f"numamirror: cannot write {target}: No such file or directory"
    assert remedy == f"numamirror: mkdir -p {target.parent} makes its directory"
