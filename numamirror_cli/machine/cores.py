"""Which CPUs are SMT siblings, and which package each belongs to.

From /sys/devices/system/cpu/cpuN/topology (Documentation/admin-guide/cputopology.rst), where the
files of a core are called core_cpus or, by their older name, thread_siblings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from numamirror_cli.machine.cpulist import parse_list, parse_mask
from numamirror_cli.machine.model import Node
from numamirror_cli.machine.tree import Tree, integer

CPU_DIR = "sys/devices/system/cpu"


@dataclass(frozen=True)
class Cores:
    """siblings: CPU -> the CPUs of its core, itself included. packages: CPU -> package id.

    A CPU of which the kernel says nothing is in neither; ids below 0 mean "unknown" and are left
    out.
    """

    siblings: Mapping[int, frozenset[int]]
    packages: Mapping[int, int]


def read_cores(tree: Tree, cpus: Iterable[int]) -> Cores:
    """Siblings and packages of these CPUs."""
    siblings: dict[int, frozenset[int]] = {}
    packages: dict[int, int] = {}
    for cpu in sorted(cpus):
        if cpu in siblings:
            continue
        path = f"{CPU_DIR}/cpu{cpu}/topology"
        core = _read_siblings(tree, path) | {cpu}
        package = tree.parsed(f"{path}/physical_package_id", integer)
        # One read serves all siblings: they share core and package.
        for member in core:
            siblings[member] = core
            if package is not None and package >= 0:
                packages[member] = package
    return Cores(siblings, packages)


def _read_siblings(tree: Tree, path: str) -> frozenset[int]:
    for name in ("core_cpus", "thread_siblings"):
        found = tree.parsed(f"{path}/{name}_list", parse_list)
        if found is None:
            found = tree.parsed(f"{path}/{name}", parse_mask)
        if found:
            return found
    return frozenset()


def group_by_core(cpus: frozenset[int], cores: Cores) -> tuple[frozenset[int], ...]:
    """These CPUs in groups that share a core, lowest CPU first."""
    groups = {cores.siblings.get(cpu, frozenset({cpu})) & cpus for cpu in cpus}
    return tuple(sorted(groups, key=min))


def cpus_in_order(node: Node) -> tuple[int, ...]:
    """The node's allowed CPUs, one of each physical core before any SMT sibling."""
    cores = node.cores or tuple(frozenset({cpu}) for cpu in node.cpus)
    turns = [
        (turn, cpu) for core in cores for turn, cpu in enumerate(sorted(core & node.allowed_cpus))
    ]
    return tuple(cpu for _, cpu in sorted(turns))
