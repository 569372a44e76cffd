"""A progress bar on stderr over many bytes of one or more files; none without a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numamirror_cli.report.console import message_console


@contextmanager
def reading_progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yields a function to be told how many bytes of `total` are done."""
    console = message_console()
    if not console.is_terminal:
        yield lambda _: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda done: progress.update(task, completed=done)
