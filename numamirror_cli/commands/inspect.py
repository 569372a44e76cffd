"""`numamirror inspect`: where a running process's memory is, and what that costs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from numamirror_cli.memory.inspection import inspect_process
from numamirror_cli.report.console import print_report
from numamirror_cli.report.inspection import inspection_json, render_inspection
from numamirror_cli.report.judgement import judge


@click.command()
@click.argument("pid", type=click.IntRange(min=1))
@click.option("--exact", is_flag=True, help="Count every page, also of a very large process.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document (docs/json.md).")
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    envvar="NUMAMIRROR_ROOT",
    default=Path("/"),
    metavar="DIR",
    help="Read DIR/sys and DIR/proc instead of this machine's.  [env: NUMAMIRROR_ROOT]",
)
def command(pid: int, exact: bool, as_json: bool, root: Path) -> None:
    """Say where a running process's memory is, and what that costs."""
    inspection = inspect_process(pid, root, exact=exact)
    verdicts = judge(inspection)
    if as_json:
        click.echo(json.dumps(inspection_json(inspection, verdicts), indent=2))
    else:
        print_report(render_inspection(inspection, verdicts))
