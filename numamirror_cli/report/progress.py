"""A progress bar on stderr while weights are copied or moved; none where stderr is no terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from numamirror_cli.figures import percent
from numamirror_cli.launch.events import Event
from numamirror_cli.quoting import printable
from numamirror_cli.report.run import where_of_copy
from numamirror_cli.report.units import size

if TYPE_CHECKING:
    from rich.progress import Progress, Task, TaskID


_FOLLOWED = ("build", "progress", "replica", "placing")

# In the place of a copy's number: pages that are moved where they are, by whatever strategy.
_PAGES = -1


class ReplicaProgress:
    """One bar per copy that is being filled, and one for pages that are being moved; each is gone
    when it is complete."""

    def __init__(self, rehearsal: bool = False) -> None:
        self._rehearsal = rehearsal
        self._progress: Progress | None = None
        self._tasks: dict[tuple[int, int], TaskID] = {}

    def show(self, event: Event) -> None:
        """Follow a build, progress, replica or placing event. Others are none of its business."""
        if event.name not in _FOLLOWED or not _stderr_is_terminal():
            return
        key = (event.pid, _PAGES if event.name == "placing" else event.number("copy"))
        if event.name == "placing":
            self._follow_pages(key, event)
        elif event.name == "build":
            where = where_of_copy(event, self._rehearsal)
            self._begin(key, f"{where}: replica of {size(event.number('bytes'))}", event)
        elif self._progress is not None and key in self._tasks:
            if event.name == "progress":
                self._progress.update(self._tasks[key], completed=event.number("done_bytes"))
                self._progress.refresh()
            else:
                self._progress.remove_task(self._tasks.pop(key))
        if not self._tasks:
            self.stop()

    def stop(self) -> None:
        """Take the bars away."""
        progress, self._progress = self._progress, None
        self._tasks.clear()
        if progress is not None:
            progress.stop()

    def _follow_pages(self, key: tuple[int, int], event: Event) -> None:
        done, total = event.number("done_bytes"), event.number("bytes")
        if key not in self._tasks:
            self._begin(key, f"pages to their nodes, {size(total)}", event)
        if self._progress is not None:
            self._progress.update(self._tasks[key], completed=done)
            self._progress.refresh()
            if done >= total:
                self._progress.remove_task(self._tasks.pop(key))

    def _begin(self, key: tuple[int, int], label: str, event: Event) -> None:
        if self._progress is None:
            self._progress = _new_progress()
            self._progress.start()
        total = max(1, event.number("bytes"))
        self._tasks[key] = self._progress.add_task(printable(label), total=total)
        self._progress.refresh()


def share_column(done: float, total: float) -> str:
    """How much of the bytes are done, as wide whatever it is."""
    return percent(done / total).rjust(len("99.9 %"))


def _stderr_is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _new_progress() -> Progress:
    # Not before it is needed: the child is waiting to be started.
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    from numamirror_cli.report.console import message_console

    class Share(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(share_column(task.completed, task.total or 1))

    return Progress(
        TextColumn("numamirror: {task.description}", markup=False),
        BarColumn(),
        Share(),
        TimeRemainingColumn(),
        console=message_console(),
        # Redrawn with each event, by us: a thread of rich's would draw over the child's output.
        auto_refresh=False,
        transient=True,
    )
