"""One line on a terminal that tells how a process's memory is coming to rest."""

from __future__ import annotations

from types import TracebackType

from rich.status import Status

from numamirror_cli.figures import counted
from numamirror_cli.memory.settle import Look, changed_bytes
from numamirror_cli.report.console import message_console
from numamirror_cli.report.units import size


class SettlingLine:
    """Shown on stderr while it is entered, if that is a terminal; silent otherwise."""

    def __init__(self) -> None:
        console = message_console()
        self._status = Status("", console=console) if console.is_terminal else None

    def __enter__(self) -> SettlingLine:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status:
            self._status.stop()

    def show(self, before: Look, now: Look) -> None:
        """Say what has changed between two looks."""
        if self._status:
            self._status.update(settling_text(before, now))


def settling_text(before: Look, now: Look) -> str:
    """As in "6.7 GiB in memory, 12 MiB moved, 310 major faults in 2.0 s"."""
    if now is before:  # the first look
        return f"{size(now.bytes)} in memory"
    faults = now.major_faults - before.major_faults
    return (
        f"{size(now.bytes)} in memory, {size(changed_bytes(before, now))} moved, "
        f"{counted(faults, 'major fault')} in {now.at - before.at:.1f} s"
    )
