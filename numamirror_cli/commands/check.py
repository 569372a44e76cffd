"""`numamirror check`: what a mirror can do with a program, before it is started."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import click

from numamirror_cli.commands.shared import json_option
from numamirror_cli.engine.elf import read_elf
from numamirror_cli.engine.examination import (
    Examination,
    examine_command,
    examine_library,
    examine_running,
)
from numamirror_cli.engine.privileges import this_caller
from numamirror_cli.engine.reach import POLICY_ONLY, Reach
from numamirror_cli.engine.shim import find_shim
from numamirror_cli.errors import NumaMirrorError, unreadable
from numamirror_cli.memory.find import pid_named
from numamirror_cli.memory.running import read_running
from numamirror_cli.memory.seccomp import read_seccomp, say_deadly, try_our_calls

_EPILOG = """\b
Exit status: 0 when weights can be mirrored (full, dense only), 1 when they
cannot or it is not known (policy only, unknown), 2 when there is nothing to
check: no such program, library or process.
"""


@click.command(
    "check",
    context_settings={"allow_interspersed_args": False},
    epilog=_EPILOG,
    no_args_is_help=True,
)
@json_option
@click.argument(
    "words",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="[--] LIBRARY|PID|PROGRAM [ARGUMENT]...",
)
def command(words: tuple[str, ...], as_json: bool) -> None:
    """Say what a mirror can do with a program, and why. Nothing is started.

    Scripts, wrappers, bundled loaders and Python imports are followed to the engine, and so is the
    string of sh -c where it is one plain command. The verdict is one of: full (all weights that
    CPU GEMM reads), dense only (experts are read past the shim), policy only (home node and memory
    policy, no mirror), unknown.
    """
    try:
        examination = _examine(words)
    except NumaMirrorError as error:
        raise NumaMirrorError(error.message, hint=error.hint, exit_code=2) from None
    if as_json:
        from numamirror_cli.report.check import check_json

        click.echo(json.dumps(check_json(examination), indent=2))
    else:
        from numamirror_cli.report.check import render_check
        from numamirror_cli.report.console import print_report

        print_report(render_check(examination))
    sys.exit(0 if examination.reach.mirrors else 1)


def _examine(words: tuple[str, ...]) -> Examination:
    shim, caller = find_shim(os.environ), this_caller()
    alone = words[0] if len(words) == 1 else ""
    if (pid := pid_named(alone)) is not None:
        return examine_running(read_running(pid), shim, caller)
    if alone and _is_library(Path(alone)):
        return examine_library(Path(alone), shim, os.environ)
    return _under_our_filter(examine_command(words, shim, caller, os.environ))


def _under_our_filter(examination: Examination) -> Examination:
    """What we run under, the program will run under: the verdict is that of `run`."""
    seccomp, filtered = read_seccomp(), try_our_calls()
    if filtered.deadly:
        notice = say_deadly(filtered.deadly)
        why = f"{notice.why}, and no policy is set either"
        examination = replace(examination, reach=Reach(POLICY_ONLY, why, notice.remedy))
    return replace(examination, seccomp=seccomp, refused=filtered.refused, deadly=filtered.deadly)


def _is_library(path: Path) -> bool:
    try:
        elf = read_elf(path) if path.is_file() else None
    except OSError as error:
        raise unreadable(path, error) from None
    return elf is not None and not elf.is_program
