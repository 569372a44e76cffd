"""Which process a person means by a name, and which of a wrapper's children does the work."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from numamirror_cli.engine.wrappers import behind_loader
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.machine.tree import Tree
from numamirror_cli.memory.kernel import read_resident
from numamirror_cli.memory.maps import Extent
from numamirror_cli.memory.process import WHO_RUNS, Process, read_process
from numamirror_cli.quoting import printable

# Programs that start the one that does the work, and wait for it.
_WRAPPERS = {
    "numamirror", "numactl", "taskset", "sudo", "doas", "su", "runuser", "setpriv", "timeout",
    "nice", "ionice", "chrt", "stdbuf", "time", "watch", "strace", "ltrace", "gdb", "perf", "env",
    "nohup", "setsid", "xargs", "script", "unbuffer", "systemd-run", "tini", "dumb-init",
    "catatonit", "docker-init", "docker", "podman", "srun", "mpirun", "ollama", "llama-swap",
}  # fmt: skip
_SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "fish", "busybox"}
# Of many processes that a name matches, so many are listed, each in a line of 80 columns.
_MOST_LISTED, _WIDEST = 20, 70
_LOADER = re.compile(r"ld(-linux.*|-musl.*|-[0-9.]+)?\.so(\.[0-9]+)?|ld64\.so\.[0-9]+")


def find_processes(name: str, root: Path = Path("/")) -> tuple[Process, ...]:
    """The processes that a name means, in pid order.

    Those that are called so, by their short name or their program; if there are none, those that
    have it in their command line. Wrappers are left out when what they started is among them, and
    so are this command and what started it.
    """
    everyone = _without_ourselves(tuple(all_processes(root)))
    candidates = _without_forks(everyone)
    found = [process for process in candidates if name in names_of(process)]
    if not found:
        found = [process for process in candidates if name in " ".join(process.arguments)]
    return tuple(_without_wrappers(found, everyone))


def the_process(name: str, root: Path = Path("/")) -> Process:
    """The one process that a pid or a name means.

    Raises NumaMirrorError when there is none, or when there are several, which it lists.
    """
    if (pid := pid_named(name)) is not None:
        return read_process(pid, root)
    if not name.strip():
        hint = f"give a pid or a name; {WHO_RUNS}"
        raise NumaMirrorError("the process's name is empty", hint=hint, exit_code=2)
    found = find_processes(name, root)
    if len(found) == 1:
        return found[0]
    if not found:
        message = f"no process is called {name!r} or has it in its command line"
        raise NumaMirrorError(message, hint=WHO_RUNS)
    lines = [_line(process) for process in found[:_MOST_LISTED]]
    if len(found) > _MOST_LISTED:
        lines.append(f"{'...':>8}  and {len(found) - _MOST_LISTED} more")
    called = f"are called {name!r}"
    if name not in names_of(found[0]):
        called = f"have {name!r} in their command lines"
    raise NumaMirrorError(
        f"{len(found)} processes {called}:", listed=lines, hint="give the number of one"
    )


def pid_named(word: str) -> int | None:
    """The pid that a word is; None for a name. No pid has more digits than this lets pass."""
    return int(word) if word.isascii() and word.isdecimal() and len(word) < 20 else None


def follow_wrapper(process: Process, root: Path = Path("/")) -> Process:
    """The engine below a wrapper: of all that it started, the process with most memory.

    A process that is no wrapper, or has started nothing, is itself what is meant.
    """
    if not is_wrapper(process):
        return process
    everyone = tuple(all_processes(root))
    # From a script, `inspect $$` has this very command below what it names.
    ours = os.getpid() if root == Path("/") else 0
    below = tuple(p for p in descendants(process, everyone) if p.pid != ours)
    # "ollama serve" starts "ollama runner": where all are wrappers, one without children works.
    parents = {p.parent for p in everyone}
    working = [p for p in below if not is_wrapper(p)] or [p for p in below if p.pid not in parents]
    return max(working, key=lambda p: read_resident(p.pid, root), default=process)


def is_wrapper(process: Process) -> bool:
    """It is there to start others; a shell counts when it runs a script or a command."""
    program = Path(process.arguments[0]).name if process.arguments else process.command
    if program in _WRAPPERS or process.command in _WRAPPERS:
        return True
    if program.lstrip("-") in _SHELLS:
        return len(process.arguments) > 1 and process.arguments[-1] not in ("-i", "-l", "--login")
    # `python -m numamirror_cli` and the installed script, which runs under its interpreter.
    words = [Path(word).name for word in process.arguments[1:3]]
    return "numamirror" in words or "numamirror_cli" in words


def names_of(process: Process) -> frozenset[str]:
    """What a process may be called: its short name, its program's, or that behind a loader."""
    program = Path(process.arguments[0]).name if process.arguments else ""
    return frozenset({process.command, program, program_name(process)}) - {""}


def program_name(process: Process, extents: Sequence[Extent] = ()) -> str:
    """The short name, but that of the program itself where a bundled ld.so was told to run it.

    Then it is read off the command line, or, where that was overwritten, off the mappings.
    """
    program = Path(process.arguments[0]).name if process.arguments else ""
    if not (_LOADER.fullmatch(process.command) or _LOADER.fullmatch(program)):
        return process.command
    behind = behind_loader(process.arguments[1:]).command
    if behind:
        return Path(behind[0]).name
    mapped = (Path(e.name).name for e in extents if e.executable and e.inode)
    programs = (name for name in mapped if ".so" not in name)
    return next(programs, process.command)


def all_processes(root: Path = Path("/")) -> Iterator[Process]:
    """Every process that may be read, in pid order; those that end meanwhile are left out."""
    pids = (int(name) for name in Tree(root).names("proc") if name.isdecimal())
    for pid in sorted(pids):
        try:
            yield read_process(pid, root)
        except NumaMirrorError:
            continue


def descendants(process: Process, everyone: Sequence[Process]) -> Iterator[Process]:
    """All processes that descend from one, children before their own.

    Each once: /proc is read one process after the other, so that two can seem to be each other's
    parents.
    """
    seen, waiting = {process.pid}, [process.pid]
    while waiting:
        parent = waiting.pop()
        for child in everyone:
            if child.parent == parent and child.pid not in seen:
                seen.add(child.pid)
                waiting.append(child.pid)
                yield child


def _without_ourselves(everyone: Sequence[Process]) -> tuple[Process, ...]:
    by_pid = {process.pid: process for process in everyone}
    ours = set()
    pid = os.getpid()
    while pid in by_pid and pid not in ours:
        ours.add(pid)
        pid = by_pid[pid].parent
    return tuple(process for process in everyone if process.pid not in ours)


def _without_forks(everyone: Sequence[Process]) -> list[Process]:
    """Without what a wrapper forked to help itself: it has the whole of its command line."""
    by_pid = {process.pid: process for process in everyone}
    return [
        process
        for process in everyone
        if (parent := by_pid.get(process.parent)) is None
        or parent.arguments != process.arguments
        or not is_wrapper(parent)
    ]


def _without_wrappers(found: Sequence[Process], everyone: Sequence[Process]) -> list[Process]:
    """Wrappers mention what they start: the name means the program, if that is there as well."""
    programs = [process for process in found if not is_wrapper(process)]
    if programs:
        return programs
    pids = {process.pid for process in found}
    return [p for p in found if not pids & {child.pid for child in descendants(p, everyone)}]


def _line(process: Process) -> str:
    # A script that `sh -c` was given may have lines of its own: here it has one.
    words = printable(" ".join(process.arguments) or process.command)
    shown = words if len(words) <= _WIDEST else f"{words[: _WIDEST - 3]}..."
    return f"{process.pid:>8}  {shown}"
