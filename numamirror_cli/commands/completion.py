"""`numamirror completion`: print the script that completes our commands in a shell."""

from __future__ import annotations

from pathlib import Path

import click

import numamirror_cli

# The files lie in the package, and the wheel also puts them where shells look (share/).
SCRIPTS = {"bash": "numamirror.bash", "zsh": "_numamirror", "fish": "numamirror.fish"}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(SCRIPTS)))
def command(shell: str) -> None:
    """Print the script that completes commands and options in that shell.

    The first lines of the script say where to load it.
    """
    directory = Path(numamirror_cli.__file__).parent / "completions"
    click.echo((directory / SCRIPTS[shell]).read_text(encoding="utf-8"), nl=False)
