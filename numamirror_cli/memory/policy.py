"""Memory policies: the calling thread's, read and set; and how a policy is spelled.

Rules: set_mempolicy(2), get_mempolicy(2), mbind(2); the kernel's own spelling of a policy, as seen
in /proc/PID/numa_maps, is mpol_to_str() in mm/mempolicy.c.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.machine.cpulist import format_list, parse_list
from numamirror_cli.memory import syscalls

_MODES = {
    0: "default",
    1: "preferred",
    2: "bind",
    3: "interleave",
    4: "local",
    5: "preferred-many",
    6: "weighted-interleave",
}
_MODE_NUMBERS = {name: number for number, name in _MODES.items()}
# MPOL_F_STATIC_NODES, MPOL_F_RELATIVE_NODES and MPOL_F_NUMA_BALANCING ride on the mode.
_MODE_FLAGS = 0xE000

# numa_maps' words for the modes that we spell differently.
_KERNEL_WORDS = {
    "prefer": "preferred",
    "prefer (many)": "preferred-many",
    "weighted interleave": "weighted-interleave",
}


@dataclass(frozen=True)
class Policy:
    """A memory policy: mode ("default", "preferred", "bind", "interleave", ...) and its nodes."""

    mode: str
    nodes: frozenset[int] = frozenset()

    def __str__(self) -> str:
        """The spelling of our messages and of the JSON: "default", "preferred:1", "bind:0-1"."""
        return f"{self.mode}:{format_list(self.nodes)}" if self.nodes else self.mode

    @property
    def is_default(self) -> bool:
        """No policy was set: memory comes from the node of the thread that touches it first."""
        return self.mode in ("default", "local")


DEFAULT = Policy("default")


@dataclass(frozen=True)
class Refusal:
    """A policy call that the kernel, or something before it, turned down.

    syscall: its name; errno: as a number; cause and remedy: one phrase each for a person.
    """

    syscall: str
    errno: int
    cause: str
    remedy: str

    @property
    def error_name(self) -> str:
        """The errno's name, as in "EPERM", or the number when it has none."""
        return errno.errorcode.get(self.errno, str(self.errno))

    def __str__(self) -> str:
        return f"{self.syscall}: {self.error_name}: {self.cause}"


class PolicyRefused(NumaMirrorError):
    """A policy call was refused. `refusal` says which, and what is the likely cause."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal), hint=refusal.remedy)
        self.refusal = refusal


def parse_policy(text: str) -> Policy:
    """Read the kernel's spelling ("prefer:1", "bind=static:0-1", "prefer (many):0") or ours.

    Raises ValueError naming the text when its node list cannot be read.
    """
    named, _, nodes = text.partition(":")
    mode = named.partition("=")[0].strip()
    return Policy(_KERNEL_WORDS.get(mode, mode), parse_list(nodes))


def current_policy() -> Policy:
    """The calling thread's policy. Raises PolicyRefused when the kernel does not say."""
    mode = ctypes.c_int(0)
    mask = syscalls.node_mask()
    _make_call("get_mempolicy", ctypes.byref(mode), mask, syscalls.MASK_BITS, None, 0)
    number = mode.value & ~_MODE_FLAGS
    nodes = syscalls.nodes_in(mask)
    # MPOL_PREFERRED with an empty set is how older kernels store MPOL_LOCAL.
    if number == 1 and not nodes:
        return Policy("local")
    return Policy(_MODES.get(number, f"mode-{number}"), nodes)


def set_preferred(node: int) -> None:
    """Make the calling thread, and what it starts, allocate on that node while there is room.

    MPOL_PREFERRED: a model that is larger than the node spills over and still loads. Raises
    PolicyRefused.
    """
    set_policy(Policy("preferred", frozenset({node})))


def set_policy(policy: Policy) -> None:
    """Set the calling thread's policy. Raises PolicyRefused; ValueError for an unknown mode."""
    mode = _mode_number(policy)
    mask = syscalls.node_mask(policy.nodes) if policy.nodes else None
    bits = syscalls.MASK_BITS if policy.nodes else 0
    _make_call("set_mempolicy", mode, mask, bits, nodes=policy.nodes)


def bind_range(address: int, length: int, policy: Policy) -> None:
    """Set the policy of a page-aligned range of our own memory, in bytes (mbind, no moving).

    Raises PolicyRefused; ValueError for an unknown mode.
    """
    mask = syscalls.node_mask(policy.nodes)
    mode = _mode_number(policy)
    _make_call("mbind", address, length, mode, mask, syscalls.MASK_BITS, 0, nodes=policy.nodes)


def probe(node: int) -> tuple[Refusal, ...]:
    """Which policy calls are refused for that node, found by doing them on throw-away memory.

    The thread's policy is left as it was. An empty tuple: none is refused.
    """
    refusals = []
    for attempt in (_probe_get, _probe_set, _probe_mbind):
        try:
            attempt(node)
        except PolicyRefused as refused:
            refusals.append(refused.refusal)
    return tuple(refusals)


def _probe_get(_node: int) -> None:
    current_policy()


def _probe_set(node: int) -> None:
    try:
        before = current_policy()
    except PolicyRefused:
        # What cannot be put back must not be changed: setting no policy again proves the call.
        set_policy(DEFAULT)
        return
    set_preferred(node)
    set_policy(before)


def _probe_mbind(node: int) -> None:
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        view = ctypes.c_char.from_buffer(page)
        try:
            address = ctypes.addressof(view)
            bind_range(address, mmap.PAGESIZE, Policy("preferred", frozenset({node})))
        finally:
            del view


def _mode_number(policy: Policy) -> int:
    try:
        return _MODE_NUMBERS[policy.mode]
    except KeyError:
        raise ValueError(f"no such memory policy: {policy}") from None


def _make_call(name: str, *arguments: object, nodes: Iterable[int] = ()) -> None:
    try:
        syscalls.call(name, *arguments)
    except OSError as error:
        raise PolicyRefused(explain_refusal(name, error.errno or 0, nodes)) from None


def explain_refusal(
    syscall: str, code: int, nodes: Iterable[int] = (), root: Path = Path("/")
) -> Refusal:
    """The likely cause and remedy of a policy call on those nodes that failed with that errno."""
    if code == errno.EPERM:
        # The kernel itself lets every thread set its own policy: only a filter says EPERM.
        return Refusal(
            syscall,
            code,
            "blocked by the container's seccomp profile",
            f"give the container CAP_SYS_NICE or a seccomp profile that allows {syscall}",
        )
    if code == errno.ENOSYS:
        return Refusal(
            syscall,
            code,
            "this kernel has no NUMA policies, or a sandbox hides them",
            "start it outside the sandbox, or on a kernel built with CONFIG_NUMA",
        )
    if code == errno.EINVAL:
        return _explain_invalid(syscall, code, nodes, root)
    return Refusal(syscall, code, os.strerror(code).lower(), "")


def _explain_invalid(syscall: str, code: int, nodes: Iterable[int], root: Path) -> Refusal:
    allowed = _allowed_nodes(root)
    outside = sorted(set(nodes) - allowed) if allowed is not None else []
    if not outside or allowed is None:
        return Refusal(syscall, code, "the kernel does not accept that policy here", "")
    which = "node {} is" if len(outside) == 1 else "nodes {} are"
    return Refusal(
        syscall,
        code,
        f"{which.format(format_list(outside))} not in Mems_allowed_list ({format_list(allowed)})",
        "choose one of those nodes, or widen cpuset.mems of the cgroup",
    )


def _allowed_nodes(root: Path) -> frozenset[int] | None:
    try:
        for line in (root / "proc/self/status").read_text(errors="replace").splitlines():
            if line.startswith("Mems_allowed_list:"):
                return parse_list(line.partition(":")[2])
    except (OSError, ValueError):
        pass
    return None
