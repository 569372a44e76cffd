"""Asking the kernel on which node pages lie: move_pages(2) in its query form."""

from __future__ import annotations

import ctypes
import errno
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.memory import syscalls
from numamirror_cli.memory.process import WHO_RUNS

# Pages per call: the arrays stay small, and a signal is served between two calls.
_BATCH = 16384


@dataclass(frozen=True)
class PageSample:
    """Where the asked pages lie.

    by_node: pages per node. absent: pages that are not in memory (never touched, swapped out, or
    the shared zero page). errors: pages per other errno of move_pages.
    """

    by_node: dict[int, int] = field(default_factory=dict)
    absent: int = 0
    errors: dict[int, int] = field(default_factory=dict)

    @property
    def located(self) -> int:
        """Pages whose node is known."""
        return sum(self.by_node.values())

    def on(self, nodes: Iterable[int]) -> int:
        """Pages that lie on one of those nodes."""
        return sum(self.by_node.get(node, 0) for node in set(nodes))


def locate_pages(pid: int, addresses: Sequence[int]) -> list[int]:
    """The node of each address's page in process `pid` (0: our own), or -errno per page.

    -ENOENT: not in memory; -EFAULT: the zero page or nothing mapped there. No page is moved and
    none is faulted in. Raises NumaMirrorError when the process is gone (ESRCH) or may not be asked
    (EPERM), and when there is no such call (ENOSYS).
    """
    located: list[int] = []
    for start in range(0, len(addresses), _BATCH):
        located.extend(_locate_batch(pid, addresses[start : start + _BATCH]))
    return located


def may_ask_for_pages() -> bool:
    """Whether move_pages(2) is allowed to this process on its own memory."""
    try:
        syscalls.call("move_pages", 0, 0, None, None, None, 0)
    except OSError:
        return False
    return True


def sample_nodes(pid: int, addresses: Sequence[int]) -> PageSample:
    """Count, per node, the pages at those addresses of process `pid`. Raises as locate_pages."""
    by_node: dict[int, int] = {}
    errors: dict[int, int] = {}
    absent = 0
    for status in locate_pages(pid, addresses):
        if status >= 0:
            by_node[status] = by_node.get(status, 0) + 1
        elif -status in (errno.ENOENT, errno.EFAULT):
            absent += 1
        else:
            errors[-status] = errors.get(-status, 0) + 1
    return PageSample(dict(sorted(by_node.items())), absent, errors)


def spread_addresses(start: int, end: int, count: int, page_bytes: int) -> list[int]:
    """At most `count` page addresses spread over [start, end): one at random in each equal part.

    At random, since a regular stride would meet every second page of interleaved memory, and so
    one node only. A range of up to `count` pages is taken whole. The choice is the same each time.
    """
    pages = max(0, end - start) // page_bytes
    if count >= pages:
        return [start + page * page_bytes for page in range(pages)]
    chance = random.Random(start).random
    part = pages / count
    return [start + int((number + chance()) * part) * page_bytes for number in range(count)]


def _locate_batch(pid: int, addresses: Sequence[int]) -> list[int]:
    count = len(addresses)
    pages = (ctypes.c_void_p * count)(*addresses)
    status = (ctypes.c_int * count)()
    try:
        syscalls.call("move_pages", pid, count, pages, None, status, 0)
    except OSError as error:
        raise _explain(pid, error) from None
    return list(status)


def _explain(pid: int, error: OSError) -> NumaMirrorError:
    whose = f"process {pid}" if pid else "this process"
    if error.errno == errno.ESRCH:
        return NumaMirrorError(f"no process {pid}", hint=WHO_RUNS)
    if error.errno in (errno.EPERM, errno.EACCES):
        return NumaMirrorError(
            f"not allowed to ask where the pages of {whose} lie (move_pages: EPERM)",
            hint="run as the process's owner or with sudo; in a container, allow move_pages",
        )
    if error.errno == errno.ENOSYS:
        return NumaMirrorError(
            "this kernel, or a sandbox, has no move_pages call",
            hint="allow it in the sandbox; a kernel needs CONFIG_NUMA and CONFIG_MIGRATION",
        )
    return NumaMirrorError(
        f"move_pages on {whose}: {error.strerror}", hint="look again while the process runs"
    )
