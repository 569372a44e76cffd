"""Is a process the child, or one that the child started? Asked of /proc."""

from __future__ import annotations

from pathlib import Path

_MOST_GENERATIONS = 256


def is_descendant(pid: int, ancestor: int) -> bool:
    """Whether pid is ancestor, or its chain of parents leads there. False for a process that is
    gone, and for one whose parents have ended (it belongs to init then)."""
    for _ in range(_MOST_GENERATIONS):
        if pid == ancestor:
            return True
        if pid <= 1:
            return False
        pid = _parent(pid)
    return False


def descendants(ancestor: int) -> list[int]:
    """The process itself and all below it that live, parents before children; itself alone where
    there is no /proc."""
    children: dict[int, list[int]] = {}
    for pid in _all_pids():
        children.setdefault(_parent(pid), []).append(pid)
    family = [ancestor]
    for pid in family:
        # Taken away, since two that were read one after the other can seem each other's parents.
        family += sorted(children.pop(pid, ()))
    return family


def _all_pids() -> list[int]:
    try:
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    except OSError:
        return []


def has_variable(pid: int, name: str, value: str) -> bool:
    """Whether the process was started with that environment variable. Only its owner can see."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{name}={value}".encode() in environ.split(b"\0")


def _parent(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        # The name in parentheses may hold anything, further parentheses included.
        return int(stat.rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
