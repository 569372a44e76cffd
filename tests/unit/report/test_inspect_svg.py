"""`inspect --svg`: the picture shows the bytes of the table, in proportion, and is sound SVG."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from numamirror_cli.cli import cli
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.memory.buffers import Buffer
from numamirror_cli.report.inspect_svg import BAR_WIDTH, PARTS, bytes_by_part
from tests.unit.memory.replay import PID, two_node_root, write_process

MIB = 1 << 20
SVG = "{http://www.w3.org/2000/svg}"
WEIGHTS, REPLICAS, SCRATCH, LARGE, ELSE = (part.fill for part in PARTS)

# MiB per node of each mapping: the file's pages lie on both nodes, a replica on node 1.
NUMA_MAPS = """\
7f0000000000 default file=/models/a<b>&c.gguf mapped=102400 N0=76800 N1=25600 kernelpagesize_kB=4
7f1000000000 bind:1 anon=102400 N1=102400 kernelpagesize_kB=4
7f2000000000 default anon=51200 N0=51200 kernelpagesize_kB=4
7f3000000000 default heap anon=2560 N0=2560 kernelpagesize_kB=4
"""
MAPS = """\
7f0000000000-7f0019000000 r--p 00000000 08:01 42 /models/a<b>&c.gguf
7f1000000000-7f1019000000 rw-p 00000000 00:00 0 [anon:numamirror:replica:node1]
7f2000000000-7f200c800000 rw-p 00000000 00:00 0
7f3000000000-7f3000a00000 rw-p 00000000 00:00 0 [heap]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = two_node_root(tmp_path)
    arguments = ("llama-server", "-m", "/models/a<b>&c.gguf")
    write_process(root, NUMA_MAPS, maps=MAPS, cpus=(0, 8, 9), arguments=arguments)
    return root


def inspect(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, ["inspect", *map(str, arguments)], env={"COLUMNS": "80"})
    if isinstance(result.exception, NumaMirrorError):
        raise result.exception
    return result


def picture(root: Path, tmp_path: Path) -> ElementTree.Element:
    file = tmp_path / "picture.svg"
    assert inspect(PID, "--root", root, "--svg", file).exit_code == 0
    return ElementTree.parse(file).getroot()


def bar_widths(drawn: ElementTree.Element, fill: str) -> list[float]:
    """Of the segments in that colour; the squares of the legend are not among them."""
    found = [e for e in drawn.iter(f"{SVG}rect") if e.get("fill") == fill]
    return [float(e.get("width", "")) for e in found if e.get("width") != e.get("height")]


def words(drawn: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in drawn.iter(f"{SVG}text")]


def test_each_node_has_a_bar_in_proportion_to_what_lies_there(root: Path, tmp_path: Path) -> None:
    drawn = picture(root, tmp_path)
    # Node 0 holds 300 + 200 + 10 MiB and is the fullest; node 1 holds 100 + 400.
    scale = BAR_WIDTH / 510
    assert bar_widths(drawn, WEIGHTS) == [pytest.approx(mib * scale, abs=0.1) for mib in (300, 100)]
    assert bar_widths(drawn, REPLICAS) == [pytest.approx(400 * scale, abs=0.1)]
    assert bar_widths(drawn, LARGE) == [pytest.approx(200 * scale, abs=0.1)]
    assert bar_widths(drawn, ELSE) == [pytest.approx(10 * scale, abs=0.1)]


def test_the_legend_adds_up_to_the_json_of_the_same_process(root: Path, tmp_path: Path) -> None:
    drawn = words(picture(root, tmp_path))
    buffers = json.loads(inspect(PID, "--root", root, "--json").stdout)["buffers"]
    total = sum(sum(buffer["bytes"].values()) for buffer in buffers)
    assert total == 1010 * MIB
    assert "llama-server: 1010 MiB on 2 nodes" in drawn
    assert "weights, as mapped from the file: 400 MiB" in drawn
    assert "replicas: 400 MiB" in drawn
    assert "large buffers of the engine: 200 MiB" in drawn
    assert "all else: 10 MiB" in drawn


def test_caches_and_compute_buffers_share_a_colour() -> None:
    buffers = [Buffer(kind, "", MIB, {1: MIB}) for kind in ("cache", "compute", "other")]
    drawn = {part.fill: by_node for part, by_node in bytes_by_part(buffers).items()}
    assert drawn == {SCRATCH: {1: 2 * MIB}, ELSE: {1: MIB}}


def test_threads_and_the_conditions_of_the_figures_are_in_it(root: Path, tmp_path: Path) -> None:
    drawn = words(picture(root, tmp_path))
    assert "510 MiB; 1 thread" in drawn
    assert "500 MiB; 2 threads" in drawn
    assert "Memory policy default; kernel.numa_balancing 0" in drawn
    moment = re.compile(rf"Process {PID}, \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d")
    assert any(moment.fullmatch(line) for line in drawn)


def test_the_verdicts_are_those_of_the_report(root: Path, tmp_path: Path) -> None:
    drawn = " ".join(words(picture(root, tmp_path)))
    verdicts = json.loads(inspect(PID, "--root", root, "--json").stdout)["verdict"]
    assert verdicts
    for verdict in verdicts:
        assert f"{verdict['level']}: {verdict['text']}" in drawn


def test_the_report_is_printed_too_and_also_when_the_picture_cannot_be_written(root: Path) -> None:
    result = CliRunner().invoke(
        cli, ["inspect", str(PID), "--root", str(root), "--svg", "/nowhere/picture.svg"]
    )
    assert "Per-node process memory usage" in result.stdout
    assert isinstance(result.exception, NumaMirrorError)
    assert result.exception.message == (
        "cannot write /nowhere/picture.svg: No such file or directory"
    )


def test_a_picture_of_a_watch_is_refused_before_anything_is_looked_at(tmp_path: Path) -> None:
    with pytest.raises(NumaMirrorError) as refused:
        inspect("1", "--watch", "--svg", tmp_path / "picture.svg")
    assert refused.value.exit_code == 2
    assert "a picture is taken once" in refused.value.message
    assert not (tmp_path / "picture.svg").exists()
