"""`numamirror topology`: show the machine, and which node is home and why."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click

from numamirror_cli.commands.pictures import write_picture
from numamirror_cli.commands.shared import OUTPUT_FILE, json_option, root_option, svg_option
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.machine.archive import open_root
from numamirror_cli.machine.home import choose_home
from numamirror_cli.machine.read import read_machine


@click.command("topology")
@json_option
@click.option("--draw", is_flag=True, help="Draw sockets, nodes and GPUs as boxes.")
@svg_option("Write a picture: sockets, memory, GPUs, distances.")
@click.option(
    "--gather",
    "archive",
    type=OUTPUT_FILE,
    metavar="FILE.tar.xz",
    help="Write what a bug report needs, without serial numbers, MAC addresses and names.",
)
@root_option("Read this machine's dump instead of this machine.")
def command(as_json: bool, draw: bool, svg: Path | None, archive: Path | None, root: Path) -> None:
    """Show nodes, distances, sockets and GPUs, which node is home and why.

    A kernel without NUMA is no error: it is said, and the exit status is 0.
    """
    if sum(map(bool, (as_json, draw, svg, archive))) > 1:
        raise NumaMirrorError(
            "--json, --draw, --svg and --gather exclude one another",
            hint="give one of them at a time",
            exit_code=2,
        )
    with open_root(root) as directory:
        if archive is not None:
            _gather(directory, archive)
            return
        machine = read_machine(directory)
    machine = replace(machine, root=root, home=choose_home(machine, None))
    if svg is not None:
        from numamirror_cli.report.topology_svg import topology_svg

        write_picture(svg, topology_svg(machine))
    elif as_json:
        from numamirror_cli.report.topology import topology_json

        click.echo(json.dumps(topology_json(machine), indent=2))
    elif draw:
        from numamirror_cli.report.console import report_console
        from numamirror_cli.report.drawing import draw_topology

        console = report_console()
        click.echo(draw_topology(machine, console.width, ascii_only=console.options.ascii_only))
    else:
        from numamirror_cli.report.console import print_report
        from numamirror_cli.report.topology import render_topology

        print_report(render_topology(machine))


def _gather(root: Path, archive: Path) -> None:
    from numamirror_cli.machine.gather import gather
    from numamirror_cli.report.console import report_console
    from numamirror_cli.report.gathered import gathered_text

    click.echo(gathered_text(gather(root, archive), report_console().width))
