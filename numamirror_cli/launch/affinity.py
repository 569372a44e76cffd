"""The CPUs that the child inherits: set, and asked back from the kernel.

An affinity survives fork and exec (sched_setaffinity(2)), so that the launcher sets its own.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.notice import Notice


def inherit_affinity(cpus: Iterable[int]) -> Notice | None:
    """Restrict the child to these CPUs; a notice when that was refused, did not hold, or could not
    be asked for afterwards."""
    wanted = frozenset(cpus)
    try:
        os.sched_setaffinity(0, wanted)
    except OSError as error:
        return Notice("threads keep the CPUs that they had", _why("sched_setaffinity", error))
    try:
        now = frozenset(os.sched_getaffinity(0))
    except OSError as error:
        what = f"CPUs {format_list(wanted)} were set for all threads and could not be verified"
        return Notice(what, _why("sched_getaffinity", error))
    if now != wanted:
        return Notice(f"threads may run on CPUs {format_list(now)}, not {format_list(wanted)}")
    return None


def _why(call: str, error: OSError) -> str:
    return f"{call}: {errno.errorcode.get(error.errno or 0, str(error.errno))}"
