"""`numamirror inspect`: where a running process's memory is, and what that costs."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path

import click

from numamirror_cli.commands.options import Seconds
from numamirror_cli.commands.pictures import write_picture
from numamirror_cli.commands.shared import json_option, svg_option
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.memory.find import follow_wrapper, the_process
from numamirror_cli.memory.inspection import Inspection, inspect_process
from numamirror_cli.memory.process import Process, is_same
from numamirror_cli.memory.settle import pause_after, wait_until_settled
from numamirror_cli.report.judgement import judge
from numamirror_cli.report.run import say


@click.command()
@click.argument("target", metavar="PID|NAME")
@click.option("--exact", is_flag=True, help="Count every page, also of a very large process.")
@json_option
@svg_option("Write a picture too: what lies on each node, and threads.")
@click.option("--watch", is_flag=True, help="Look again and again; with --json, a line each time.")
@click.option(
    "--until-settled",
    is_flag=True,
    help="Wait until no page moves and none is read from disk any more; then report.",
)
@click.option(
    "--interval",
    type=Seconds(min=0.05),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Between two looks of --watch and --until-settled.",
)
@click.option(
    "--quiet-for",
    type=Seconds(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long nothing may have moved for --until-settled.",
)
@click.option("--no-follow", is_flag=True, help="Show a wrapper itself, not the engine below it.")
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    envvar="NUMAMIRROR_ROOT",
    default=Path("/"),
    metavar="DIR",
    help="Read DIR/sys and DIR/proc instead of this machine's.  [env: NUMAMIRROR_ROOT]",
)
def command(
    target: str,
    exact: bool,
    as_json: bool,
    svg: Path | None,
    watch: bool,
    until_settled: bool,
    interval: float,
    quiet_for: float,
    no_follow: bool,
    root: Path,
) -> None:
    """Say where a running process's memory is, and what that costs.

    A NAME is that of a program, or a part of a command line; several matches are listed. A script
    or a launcher is followed to the engine that it started.
    """
    if root != Path("/") and (watch or until_settled):
        raise NumaMirrorError(
            f"--root {root}: a dump does not change, there is nothing to wait for",
            hint="leave out --watch and --until-settled, or --root to look at this machine",
            exit_code=2,
        )
    if watch and svg is not None:
        raise NumaMirrorError(
            f"--svg {svg}: a picture is taken once, and --watch looks again and again",
            hint="leave out --watch; with --json it gives a line each time, to draw from",
            exit_code=2,
        )
    process = _find(target, no_follow, root)
    if until_settled:
        _settle(process, interval, quiet_for)
    if watch:
        _watch(process, exact, as_json, interval)
    else:
        inspection = inspect_process(process.pid, root, exact=exact)
        _show(inspection, as_json)
        if svg is not None:
            _draw(inspection, svg)


def _find(target: str, no_follow: bool, root: Path) -> Process:
    named = the_process(target, root)
    process = named if no_follow else follow_wrapper(named, root)
    if process != named:
        say(
            f"{named.pid} ({named.command}) has started {process.pid} ({process.command}), "
            "which is shown"
        )
    return process


def _settle(process: Process, interval: float, quiet_for: float) -> None:
    from numamirror_cli.report.settling import SettlingLine

    try:
        with SettlingLine() as line:
            settled = wait_until_settled(process.pid, quiet_for, interval, line.show)
    except NumaMirrorError:
        if is_same(process):
            raise
        ended = f"process {process.pid} ({process.command}) ended before it settled"
        raise NumaMirrorError(ended, hint="give a shorter time with --quiet-for") from None
    say(f"settled after {settled.seconds:.0f} s: nothing has moved for {quiet_for:g} s")


def _watch(process: Process, exact: bool, as_json: bool, interval: float) -> None:
    """Until the process ends or the user has seen enough: both are a good end."""
    from numamirror_cli.report.console import report_console

    console = report_console()
    try:
        while True:
            begun = time.monotonic()
            inspection = inspect_process(process.pid, exact=exact)
            if not as_json and console.is_terminal:
                console.clear()
            _show(inspection, as_json, indent=None)
            time.sleep(pause_after(time.monotonic() - begun, interval))
    except KeyboardInterrupt:
        return
    except NumaMirrorError:
        if is_same(process):
            raise
        say(f"process {process.pid} ({process.command}) has ended")


def _show(inspection: Inspection, as_json: bool, indent: int | None = 2) -> None:
    from numamirror_cli.report.console import print_report
    from numamirror_cli.report.inspection import inspection_json, render_inspection

    verdicts = judge(inspection)
    if as_json:
        click.echo(json.dumps(inspection_json(inspection, verdicts), indent=indent))
    else:
        print_report(render_inspection(inspection, verdicts))


def _draw(inspection: Inspection, file: Path) -> None:
    from numamirror_cli.report.inspect_svg import inspection_svg

    write_picture(file, inspection_svg(inspection, judge(inspection), datetime.now()))
