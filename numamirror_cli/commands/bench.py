"""`numamirror bench`: measure how fast each node reads each node's memory."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import click

from numamirror_cli.commands.options import Seconds
from numamirror_cli.commands.pictures import write_picture
from numamirror_cli.commands.shared import json_option, svg_option
from numamirror_cli.engine.directories import is_file
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.launch.host import read_host
from numamirror_cli.machine.model import Machine
from numamirror_cli.machine.read import read_machine
from numamirror_cli.plan.bench_result import BenchResult, Cell, identify, to_json
from numamirror_cli.plan.bench_store import bench_file, load, store
from numamirror_cli.plan.measure import find_program, measure_pair, sides_of
from numamirror_cli.quoting import printable

_ROOT = Path("/")


@click.command("bench")
@json_option
@svg_option("Write the matrices as a picture too.")
@click.option(
    "--seconds",
    type=Seconds(0.05, 18),
    metavar="S",
    default=2.0,
    show_default=True,
    help="For each of the three figures of a pair of nodes.",
)
@click.option("--last", is_flag=True, help="Show the result that is stored; measure nothing.")
def command(as_json: bool, svg: Path | None, seconds: float, last: bool) -> None:
    """Measure how fast the CPUs of each node read the memory of each node.

    Bandwidth with all cores of a node and with one thread, and latency, in huge pages that lie
    where the kernel says they do. The result is kept in the cache directory, where `plan` and
    `run` find it. Let the machine do nothing else meanwhile.
    """
    machine = read_machine(_ROOT)
    path = bench_file(identify(machine))
    result = _stored(path) if last else _measure(machine, seconds)
    # Shown first: a measurement that can't be kept is not lost.
    _show(result, as_json)
    if not last:
        store(result, path)
    if not as_json:
        click.echo(printable(f"Kept in {path}"))
    if svg is not None:
        from numamirror_cli.report.bench_svg import bench_svg

        write_picture(svg, bench_svg(result))


def _show(result: BenchResult, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(to_json(result), indent=2))
        return
    from numamirror_cli.report.bench import render_bench
    from numamirror_cli.report.console import print_report, report_console

    print_report(render_bench(result, ascii_only=report_console().options.ascii_only))


def _stored(path: Path) -> BenchResult:
    if not is_file(path):
        raise NumaMirrorError(
            "this machine was not measured yet", hint="measure it with: numamirror bench"
        )
    return load(path)


def _measure(machine: Machine, seconds: float) -> BenchResult:
    """All pairs, one after the other. Raises NumaMirrorError when none could be measured."""
    from numamirror_cli.report.bench import BenchProgress

    program, sides, host = find_program(), sides_of(machine), read_host(_ROOT)
    load, taken = os.getloadavg()[0], time.time()
    pairs = list(sides.pairs())
    cells: list[Cell] = []
    progress = BenchProgress(len(pairs), sys.stderr is not None and sys.stderr.isatty())
    try:
        for reader, memory in pairs:
            cell = Cell(reader.node, memory.node)
            for cell in measure_pair(
                program, reader, memory, bound=sides.bound, seconds=seconds, root=_ROOT
            ):
                progress.show(cell, len(cells))
            cells.append(cell)
    finally:
        progress.stop()
    if all(cell.problem for cell in cells):
        why = cells[0].problem if cells else "no node has both CPUs and memory for it"
        hint = "numamirror doctor says what this process may use"
        raise NumaMirrorError(f"nothing could be measured: {why}", hint=hint)
    identity = identify(machine)
    return BenchResult(identity, host.kernel, host.numa_balancing, taken, load, tuple(cells))
