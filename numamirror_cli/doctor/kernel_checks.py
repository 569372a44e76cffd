"""Checks of the kernel's settings and of what it allows this process."""

from __future__ import annotations

from collections.abc import Iterator

from numamirror_cli.doctor.check import BAD, OK, WARN, Check
from numamirror_cli.doctor.facts import Facts
from numamirror_cli.doctor.settings import Settings
from numamirror_cli.memory.kernel import BALANCING_OFF
from numamirror_cli.memory.seccomp import say_deadly
from numamirror_cli.report.units import part_of, size

# The kernel's own default (DEFAULT_MAX_MAP_COUNT), which no engine is known to exceed.
_DEFAULT_MAPPINGS = 65530


def kernel_checks(facts: Facts) -> Iterator[Check]:
    """All checks of settings; what the kernel does not say gives no line."""
    several = len(facts.machine.mirror_nodes) > 1
    yield from _shim(facts)
    yield from _policy_calls(facts, several)
    yield from _balancing(facts.settings, several)
    yield from _huge_pages(facts.settings)
    yield from _mappings(facts.settings)
    yield from _swap(facts.settings)


def _shim(facts: Facts) -> Iterator[Check]:
    if facts.shim_problem is not None:
        problem = facts.shim_problem
        yield Check("shim", BAD, f"{problem.what}: {problem.why}", problem.remedy)


def _policy_calls(facts: Facts, several: bool) -> Iterator[Check]:
    if facts.deadly:
        notice = say_deadly(facts.deadly)
        text = f"{notice.why}: a program is started without a policy and without the shim"
        yield Check("policy calls", BAD, text, notice.remedy)
    if facts.refusals is None:
        return
    if not facts.refusals:
        yield Check("policy calls", OK, "get_mempolicy, set_mempolicy and mbind are allowed")
    for refusal in facts.refusals:
        level = WARN if several else OK
        yield Check("policy calls", level, str(refusal), refusal.remedy if several else "")


def _balancing(settings: Settings, several: bool) -> Iterator[Check]:
    value = settings.numa_balancing
    if value is None:
        return
    if not value or not several:
        off = "" if value else " (off)"
        yield Check("numa_balancing", OK, f"kernel.numa_balancing is {value}{off}")
        return
    text = (
        f"kernel.numa_balancing is {value}: the kernel unmaps pages to see who uses them, and "
        "moves what lies well"
    )
    yield Check("numa_balancing", WARN, text, BALANCING_OFF)


def _huge_pages(settings: Settings) -> Iterator[Check]:
    chosen = settings.huge_pages
    if chosen is None:
        return
    if chosen in ("always", "madvise"):
        yield Check("huge pages", OK, f"transparent huge pages: {chosen}")
        return
    what = "are off" if chosen else "are not built into this kernel"
    yield Check(
        "huge pages",
        WARN,
        f"transparent huge pages {what}: replicas get 4-KiB pages, which cost a few percent",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"
        if chosen
        else "run a kernel built with CONFIG_TRANSPARENT_HUGEPAGE",
    )


def _mappings(settings: Settings) -> Iterator[Check]:
    """A copy is one region per node, whatever number of tensors is in it (case S10)."""
    limit = settings.max_map_count
    if limit is None:
        return
    if limit >= _DEFAULT_MAPPINGS:
        text = f"{limit}; a mirror takes a few per node, not per tensor"
        yield Check("max_map_count", OK, text)
        return
    text = f"vm.max_map_count is {limit}, below the kernel's default: the engine may need more"
    yield Check("max_map_count", WARN, text, f"sudo sysctl vm.max_map_count={_DEFAULT_MAPPINGS}")


def _swap(settings: Settings) -> Iterator[Check]:
    total, used = settings.swap_total, settings.swap_used
    if total is None or used is None:
        return
    if not total:
        yield Check("swap", OK, "none")
    elif not used:
        yield Check("swap", OK, f"{size(total)}, unused")
    else:
        text = f"{part_of(used, total)} in use: what of a model is swapped out is read again"
        yield Check("swap", WARN, text, "free memory first, then: sudo swapoff -a")
