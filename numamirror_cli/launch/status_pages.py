"""The status pages of the processes below us: kept open, to be read when they have ended."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from numamirror_cli.errors import NumaMirrorError

if TYPE_CHECKING:
    from numamirror_cli.memory.status_page import MirrorStatus


class StatusPages:
    """Descriptors of status pages by the process that handed them over, or was found with one."""

    def __init__(self) -> None:
        self._descriptors: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._descriptors)

    def keep(self, pid: int, descriptor: int) -> None:
        """Take over a descriptor. A process that execs says hello again, with a new page."""
        if pid in self._descriptors:
            os.close(self._descriptors[pid])
        self._descriptors[pid] = descriptor

    def look_for(self, pids: Iterable[int]) -> None:
        """Find pages in /proc: a hello can get lost (a full queue, another network namespace)."""
        # Imported when the child is running, not while it waits to be started.
        from numamirror_cli.memory.status_page import find_status_page

        for pid in pids:
            with contextlib.suppress(OSError):
                page = find_status_page(pid)
                if page is not None and pid not in self._descriptors:
                    # Whatever bears that name: opening it must not wait.
                    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
                    self._descriptors[pid] = os.open(page, flags)

    def forget_ended(self, worth_keeping: Collection[int]) -> None:
        """Close the pages of processes that have ended and had nothing to tell."""
        for pid in [pid for pid in self._descriptors if pid not in worth_keeping]:
            if not Path(f"/proc/{pid}").exists():
                os.close(self._descriptors.pop(pid))

    def read(self) -> tuple[list[MirrorStatus], str]:
        """The pages that can be read, and why the last of the others could not, or ""."""
        if not self._descriptors:
            return [], ""
        from numamirror_cli.memory.status_page import read_status

        statuses, problem = [], ""
        for descriptor in self._descriptors.values():
            try:
                statuses.append(read_status(descriptor))
            except NumaMirrorError as error:
                problem = error.message
        return statuses, problem

    def close(self) -> None:
        """Close them all."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()
