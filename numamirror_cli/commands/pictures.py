"""`--svg FILE` of the commands that draw: one way to write a picture, and to say why it failed."""

from __future__ import annotations

from pathlib import Path

import click

from numamirror_cli.errors import unwritable
from numamirror_cli.output import write_whole
from numamirror_cli.quoting import printable


def write_picture(file: Path, svg: str) -> None:
    """Write it and say so. Raises NumaMirrorError, naming the file, when it can't be written."""
    try:
        write_whole(file, svg)
    except OSError as error:
        raise unwritable(file, error) from error
    click.echo(printable(f"wrote {file}"), err=True)
