"""Options that several commands have, so that they are spelled and described alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

# A file of the user's that we write; click would refuse one that may be written and not read.
OUTPUT_FILE = click.Path(dir_okay=False, readable=False, path_type=Path)

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document (docs/json.md)."
)
verbose_option = click.option("-v", "--verbose", is_flag=True, help="Say more about what is done.")
home_option = click.option(
    "--home",
    type=click.IntRange(min=0),
    metavar="N",
    help="Node of the primary copy.  [env: NUMAMIRROR_HOME; default: the node of most GPUs, "
    "else the lowest]",
)
program_argument = click.argument(
    "words",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="[--] PROGRAM [ARGUMENT]...",
)


def root_option(purpose: str) -> Decorator:
    """`--root` of the commands that read a directory or an archive of `topology --gather`."""
    return click.option(
        "--root",
        type=click.Path(exists=True, path_type=Path),
        default=Path("/"),
        envvar="NUMAMIRROR_ROOT",
        metavar="DIR|FILE.tar.xz",
        help=f"{purpose}  [env: NUMAMIRROR_ROOT]",
    )


def svg_option(purpose: str) -> Decorator:
    """`--svg FILE`; write_picture writes it."""
    return click.option(
        "--svg",
        type=OUTPUT_FILE,
        metavar="FILE",
        help=purpose,
    )
