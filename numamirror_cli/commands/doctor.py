"""`numamirror doctor`: what stands in the way of local reads, and what to do about it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from numamirror_cli.commands.shared import json_option, root_option
from numamirror_cli.doctor.diagnosis import diagnose, gather_facts, is_bad
from numamirror_cli.machine.archive import open_root

_EPILOG = """\b
Exit status: 0 when nothing is bad, 1 when something is; 2 for bad usage; 126
or 127 when the program cannot be run or is not there.
"""


@click.command("doctor", context_settings={"allow_interspersed_args": False}, epilog=_EPILOG)
@json_option
@root_option("Look at the machine of this dump.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[[--] PROGRAM [ARGUMENT]...]")
def command(words: tuple[str, ...], as_json: bool, root: Path) -> None:
    """Say what stands in the way of local reads, one line per check, each with its remedy.

    With PROGRAM and its ARGUMENTs also: whether its engine can be mirrored, whether the copies of
    its model fit, where the model is cached, and whether its threads have cores. Nothing is
    started or changed.
    """
    with open_root(root) as directory:
        checks = diagnose(gather_facts(directory, words, os.environ))
    if as_json:
        from numamirror_cli.report.doctor import doctor_json

        click.echo(json.dumps(doctor_json(checks, root, words), indent=2))
    else:
        from numamirror_cli.report.console import print_report
        from numamirror_cli.report.doctor import render_doctor

        print_report(render_doctor(checks))
    sys.exit(1 if is_bad(checks) else 0)
