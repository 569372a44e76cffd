"""Where the pages of the running child lie, looked at from time to time.

A process that has ended can't be asked, so that the report at the end shows the last look and
says when it was. Reading numa_maps walks the page tables of the process: a look is taken at the
moment when replicas were built, then at growing intervals, and never costs more than 2 % of the
time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from numamirror_cli.errors import NumaMirrorError, described

if TYPE_CHECKING:
    from numamirror_cli.memory.placement import Placement

WHEN_BUILT = "when replicas were built"

_FIRST_SECONDS = 2.0
_LONGEST_SECONDS = 120.0
# After a look that took one second, none for fifty.
_TIMES_ITS_COST = 50
_LAST_LOOK_PATIENCE = 0.5


@dataclass(frozen=True)
class Snapshot:
    """One look. t: seconds since the child's start; cause: why then, a phrase or "".

    has_shim: the shim was loaded into the process at that moment. own_filters: the process had put
    itself under seccomp filters.
    """

    t: float
    cause: str
    pid: int
    command: str
    placement: Placement
    has_shim: bool
    own_filters: bool = False


class Snapshots:
    """Takes looks in a thread of its own, one at a time, so that signals never wait for one.

    latest: the last look that succeeded. problem: why the last one failed, "" when it did not or
    the process had ended.
    """

    def __init__(self, nodes: Iterable[int], shim: str) -> None:
        """nodes: the machine's; shim: the file that was preloaded, "" for none."""
        self.latest: Snapshot | None = None
        self.problem = ""
        self._nodes = tuple(nodes)
        self._shim = shim
        self._thread: threading.Thread | None = None
        self._interval = _FIRST_SECONDS
        self._due = time.monotonic() + self._interval
        self._not_before = 0.0
        self._cause = ""

    def ask(self, cause: str) -> None:
        """Look as soon as the last look's cost allows."""
        self._cause = cause
        self._due = 0.0

    def seconds_until_due(self) -> float:
        """Until the next look wants to be taken; a running one is waited for."""
        if self._thread is not None and self._thread.is_alive():
            return 0.1
        return max(0.0, max(self._due, self._not_before) - time.monotonic())

    def take(self, pid: int, seconds: float) -> None:
        """Start a look at a process. seconds: since the child's start."""
        cause, self._cause = self._cause, ""
        self._interval = min(self._interval * 2, _LONGEST_SECONDS)
        self._due = time.monotonic() + self._interval
        self._thread = threading.Thread(
            target=self._look, args=(pid, seconds, cause), name="placement", daemon=True
        )
        self._thread.start()

    def finish(self) -> None:
        """Wait a moment for a look that is under way."""
        if self._thread is not None:
            self._thread.join(_LAST_LOOK_PATIENCE)

    def _look(self, pid: int, seconds: float, cause: str) -> None:
        began = time.monotonic()
        try:
            shot = self._shot(pid, seconds, cause)
            self.latest, self.problem = shot or self.latest, ""
        except NumaMirrorError as error:
            self.problem = error.message if Path(f"/proc/{pid}").exists() else ""
        except Exception as fault:
            self.problem = described(fault)
        ended = time.monotonic()
        self._not_before = ended + _TIMES_ITS_COST * (ended - began)

    def _shot(self, pid: int, seconds: float, cause: str) -> Snapshot | None:
        """None of a process that ends meanwhile: it shows fewer and fewer pages, at last none."""
        # Imported when the child is running, not while it waits to be started.
        from numamirror_cli.memory.find import program_name
        from numamirror_cli.memory.numa_maps import read_numa_maps
        from numamirror_cli.memory.placement import add_up
        from numamirror_cli.memory.process import read_process
        from numamirror_cli.memory.seccomp import read_filters

        command = program_name(read_process(pid))
        mappings = list(read_numa_maps(pid))
        placement = add_up(mappings, self._nodes)
        if not placement.total.total:
            return None
        has_shim = bool(self._shim) and any(m.path == self._shim for m in mappings)
        own_filters = (read_filters(pid) or 0) > (read_filters() or 0)
        return Snapshot(seconds, cause, pid, command, placement, has_shim, own_filters)
