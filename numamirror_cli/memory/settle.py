"""Has a process's memory come to rest? The wait that people otherwise do by eye.

An engine that maps its model brings each page in when it is first read, on the node of the thread
that reads it; that takes minutes of real work, and figures from before are not final.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.memory.inspection import read_placement
from numamirror_cli.memory.process import WHO_RUNS, read_major_faults

# Between two looks of a process at rest, at most this share of its memory changes ...
_SHARE_AT_REST = 0.001
# ... or this many bytes, whichever is more: a small process allocates and frees, too.
_BYTES_AT_REST = 1 << 20
_FAULTS_AT_REST = 1.0  # a second
# A look may take this part of the time at most, so that watching does not disturb.
_MOST_OF_THE_TIME = 0.05


@dataclass(frozen=True)
class Look:
    """What is compared. at: seconds on the monotonic clock; major_faults: since the start."""

    at: float
    major_faults: int
    by_node: Mapping[int, int]

    @property
    def bytes(self) -> int:
        return sum(self.by_node.values())


@dataclass(frozen=True)
class Settled:
    """seconds: from the first look until nothing moved any more; looks: how many were taken."""

    seconds: float
    looks: int


def take_look(pid: int, root: Path = Path("/")) -> Look:
    """Look at a process once. Raises NumaMirrorError when it is gone or may not be read."""
    placement = read_placement(pid, root)
    by_node = {node: amounts.total for node, amounts in placement.by_node.items()}
    if not any(by_node.values()):
        raise NumaMirrorError(f"process {pid} has ended", hint=WHO_RUNS)
    return Look(time.monotonic(), read_major_faults(pid, root), by_node)


def is_quiet(before: Look, after: Look) -> bool:
    """Between two looks nothing was read from disk, and hardly a page came, went or moved."""
    seconds = max(after.at - before.at, 1e-6)
    faults = (after.major_faults - before.major_faults) / seconds
    tolerated = max(_BYTES_AT_REST, int(_SHARE_AT_REST * after.bytes))
    return faults <= _FAULTS_AT_REST and changed_bytes(before, after) <= tolerated


def changed_bytes(before: Look, after: Look) -> int:
    """Bytes that nodes gained, or that they lost, whichever is more."""
    nodes = {*before.by_node, *after.by_node}
    changes = [after.by_node.get(n, 0) - before.by_node.get(n, 0) for n in nodes]
    return max(sum(c for c in changes if c > 0), -sum(c for c in changes if c < 0))


def quiet_since(looks: Sequence[Look]) -> Look:
    """The look after which nothing moved; the last one when something just did.

    Each later look is compared with that one, so that a slow drift does not pass for rest.
    """
    since = looks[-1]
    for look in reversed(looks):
        if not is_quiet(look, looks[-1]):
            break
        since = look
    return since


def wait_until_settled(
    pid: int,
    quiet_seconds: float,
    interval: float,
    tell: Callable[[Look, Look], None],
) -> Settled:
    """Look again and again until nothing has moved for `quiet_seconds`.

    interval: seconds between looks, longer where looking takes long. tell: called with each two
    looks that follow each other. Raises NumaMirrorError when the process ends before.
    """
    looks: list[Look] = []
    while True:
        begun = time.monotonic()
        looks.append(take_look(pid))
        tell(looks[-2] if len(looks) > 1 else looks[-1], looks[-1])
        since = quiet_since(looks)
        if looks[-1].at - since.at >= quiet_seconds:
            return Settled(since.at - looks[0].at, len(looks))
        time.sleep(pause_after(time.monotonic() - begun, interval))


def pause_after(look_seconds: float, interval: float) -> float:
    """Seconds to wait after a look that took so long: watching must not disturb."""
    return max(interval, look_seconds / _MOST_OF_THE_TIME)
