"""What is said while the child runs: a line or a bar for each event of the shim."""

from __future__ import annotations

from collections.abc import Collection

from numamirror_cli.launch.events import Event
from numamirror_cli.report.progress import ReplicaProgress
from numamirror_cli.report.run import event_line, say, stderr_may_be_gone


class LiveReport:
    """Shows events as they come. rehearsal: nodes are pretended; verbose: say more; copying: off
    where nothing is copied, so that there is no coverage to speak of; reasons: what was said before
    the start, and is not said again by the shim."""

    def __init__(
        self,
        rehearsal: bool,
        verbose: bool,
        *,
        copying: bool = True,
        reasons: Collection[str] = (),
    ) -> None:
        self._copying = copying
        self._reasons = reasons
        self._rehearsal = rehearsal
        self._verbose = verbose
        self._progress = ReplicaProgress(rehearsal)
        self._coverage: dict[int, str] = {}

    def show(self, event: Event) -> None:
        """One event. Neither what another process sends nor a lost terminal makes this fail."""
        with stderr_may_be_gone():
            self._progress.show(event)
        if event.name == "coverage" and not self._copying:
            return
        line = event_line(event, self._rehearsal, self._verbose)
        if line and not self._is_said(event, line):
            say(line)

    def _is_said(self, event: Event, line: str) -> bool:
        """A process tells its coverage again when it has learned what a token reads."""
        if event.name == "note":
            return event.text("why") in self._reasons
        if event.name != "coverage":
            return False
        before, self._coverage[event.pid] = self._coverage.get(event.pid), line
        return line == before

    def stop(self) -> None:
        """Take away what is not finished."""
        with stderr_may_be_gone():
            self._progress.stop()
