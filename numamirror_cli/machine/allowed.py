"""Where this process may run and allocate: its affinity and its cpuset.

The kernel's own answer is Cpus_allowed_list and Mems_allowed_list in /proc/PID/status (proc(5)).
A dump without that file is asked for the cpuset of the process (cpuset(7), cgroups(7)).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from numamirror_cli.machine.cpulist import format_list, parse_list
from numamirror_cli.machine.tree import Tree


@dataclass(frozen=True)
class Allowed:
    """CPUs and memory nodes; None: nothing limits them, or nothing says so."""

    cpus: frozenset[int] | None = None
    mems: frozenset[int] | None = None

    def mems_text(self) -> str:
        """As Mems_allowed_list spells it, "" without a limit."""
        return "" if self.mems is None else format_list(self.mems)


def read_allowed(tree: Tree, pid: int | None = None) -> Allowed:
    """The limits of process `pid`, or of this one; those of its cpuset where a dump has no more."""
    process = "self" if pid is None else str(pid)
    status = _read_status(tree, f"proc/{process}/status")
    cpuset = Allowed() if tree.live else _read_cpuset(tree, f"proc/{process}/cpuset")
    return Allowed(
        cpus=cpuset.cpus if status.cpus is None else status.cpus,
        mems=cpuset.mems if status.mems is None else status.mems,
    )


def _read_status(tree: Tree, path: str) -> Allowed:
    found: dict[str, frozenset[int]] = {}
    for line in (tree.text(path) or "").splitlines():
        name, _, value = line.partition(":")
        if name in ("Cpus_allowed_list", "Mems_allowed_list"):
            try:
                found[name] = parse_list(value)
            except ValueError as error:
                tree.note(path, f"{name}: {error}")
    # An empty list is no process's: it runs somewhere.
    return Allowed(found.get("Cpus_allowed_list") or None, found.get("Mems_allowed_list") or None)


def _read_cpuset(tree: Tree, path: str) -> Allowed:
    group = (tree.text(path) or "").strip("/")
    mount = _cpuset_mount(tree)
    if mount is None:
        return Allowed()
    directory, cpus, mems = mount
    below = "/".join(part for part in (directory, group) if part)
    return Allowed(
        cpus=tree.parsed(f"{below}/{cpus}", parse_list) or None,
        mems=tree.parsed(f"{below}/{mems}", parse_list) or None,
    )


def _cpuset_mount(tree: Tree) -> tuple[str, str, str] | None:
    """Directory of the cpuset hierarchy and its two file names; version 1 wins where both are.

    In version 1 the files without "effective" hold what tasks get; in version 2 they hold only
    what was asked for.
    """
    version_2 = None
    for line in (tree.text("proc/mounts") or "").splitlines():
        fields = line.split()
        if len(fields) < 4:
            continue
        directory, kind, options = _unescaped(fields[1]).strip("/"), fields[2], fields[3].split(",")
        is_version_1 = kind == "cgroup" and "cpuset" in options
        if kind == "cpuset" or (is_version_1 and "noprefix" in options):
            return directory, "cpus", "mems"
        if is_version_1:
            return directory, "cpuset.cpus", "cpuset.mems"
        if kind == "cgroup2":
            version_2 = directory, "cpuset.cpus.effective", "cpuset.mems.effective"
    return version_2


def _unescaped(path: str) -> str:
    """A path of /proc/mounts with its octal escapes undone (\\040 is a space)."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)
