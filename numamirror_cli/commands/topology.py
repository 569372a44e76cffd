"""`numamirror topology`: show the machine, and which node is home and why."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click

from numamirror_cli.machine.home import choose_home
from numamirror_cli.machine.read import read_machine


@click.command("topology")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (docs/json.md).")
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path("/"),
    envvar="NUMAMIRROR_ROOT",
    metavar="DIR",
    help="Read DIR/sys and DIR/proc instead of this machine's.  [env: NUMAMIRROR_ROOT]",
)
def command(as_json: bool, root: Path) -> None:
    """Show nodes, distances, sockets and GPUs, which node is home and why.

    A kernel without NUMA is no error: it is said, and the exit status is 0.
    """
    machine = read_machine(root)
    machine = replace(machine, home=choose_home(machine, None))
    if as_json:
        from numamirror_cli.report.topology import topology_json

        click.echo(json.dumps(topology_json(machine), indent=2))
        return
    from numamirror_cli.report.console import print_report
    from numamirror_cli.report.topology import render_topology

    print_report(render_topology(machine))
