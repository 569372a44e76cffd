"""Will a preload reach the program, and may it be set at all? One verdict, with its reason.

The rules are those of ld.so(8); where they do not decide, the loader itself is asked to load
program and shim without running them (`ld.so --list`).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.engine.elf import ElfFacts, is_for_this_machine
from numamirror_cli.engine.own_mirror import OwnMirror
from numamirror_cli.engine.privileges import Caller, raised_privilege
from numamirror_cli.engine.shim import Shim
from numamirror_cli.engine.target import Target
from numamirror_cli.notice import Notice

# A trial that takes longer than this tells nothing, and the user waits.
_TRIAL_SECONDS = 2.0


@dataclass(frozen=True)
class Preload:
    """entries: what to add to LD_PRELOAD, in order; empty when it must be left alone.

    reaches_program: the loader will load the shim into the program itself.
    notice: what is lost and why, None when nothing is.
    obstacle: in a phrase, what stands in the way when it does not reach the program.
    own_mirror: of an engine that was told to mirror by itself, and gets no shim for that reason.
    """

    entries: tuple[str, ...]
    reaches_program: bool
    notice: Notice | None = None
    obstacle: str = "the shim cannot be loaded into the program"
    own_mirror: OwnMirror | None = None


def judge_preload(
    target: Target, shim: Shim, caller: Caller, environ: Mapping[str, str]
) -> Preload:
    """What to preload for that target, and whether it will be honoured."""
    if shim.path is None:
        return Preload((), False, shim.problem)
    entries = (*_sanitizers_first(target, shim, environ), str(shim.path))
    if target.elf is None:
        return Preload(entries, True)
    if forbidden := _harm(target, target.elf):
        return Preload((), False, forbidden)
    if obstacle := _obstacle(target, target.elf, caller):
        # Programs that it starts in turn may still be engines, so the preload stays set.
        return Preload(entries, False, obstacle)
    if complaint := _try_loading(target, target.elf, entries, environ):
        what = f"{target.image.name}: cannot preload, policy only"
        return Preload((), False, Notice(what, complaint, "install numamirror for that libc"))
    return Preload(entries, True)


def _harm(target: Target, elf: ElfFacts) -> Notice | None:
    """Why setting LD_PRELOAD would keep the program from starting, or only make noise."""
    what = f"{target.image.name}: cannot preload, policy only"
    if not is_for_this_machine(elf):
        return Notice(
            what,
            f"it is built for another machine ({elf.machine.removeprefix('EM_')}, {elf.bits} bit)",
            "use a native build of the engine",
        )
    if elf.uses_musl or any("ld-musl" in word for word in target.loader):
        return Notice(
            what,
            "it uses musl's loader, and the shim is built for glibc",
            "use a glibc build of the engine",
        )
    return None


def _obstacle(target: Target, elf: ElfFacts, caller: Caller) -> Notice | None:
    """Why the preload will not reach the program, although nothing is harmed by setting it."""
    name = target.image.name
    what = f"{name}: cannot preload, policy only"
    if elf.loader is None and not target.loader:
        return Notice(
            what, "it is linked statically, without a loader", "use a dynamically linked build"
        )
    for file in target.executed:
        if raised := raised_privilege(file, caller):
            return _privilege_notice(file, raised)
    if target.drops_preload:
        wrapper = target.drops_preload.partition(" ")[0]
        return Notice(
            what,
            f"{target.drops_preload} takes LD_PRELOAD away",
            f"put numamirror behind it: {wrapper} ... numamirror run -- {name}",
        )
    return None


def _privilege_notice(file: Path, raised: str) -> Notice:
    why = f"the loader drops LD_PRELOAD for a program with {raised}"
    if raised == "file capabilities":
        remedy = (
            "give the capabilities as ambient ones instead "
            "(setpriv --ambient-caps, or AmbientCapabilities= in a unit)"
        )
    else:
        remedy = f"put numamirror behind it: {file.name} ... numamirror run -- PROGRAM"
        why = f"the loader drops LD_PRELOAD for a {raised} program"
    return Notice(f"{file.name}: cannot preload, policy only", why, remedy)


def _sanitizers_first(target: Target, shim: Shim, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Sanitizer runtimes that must stand before the shim and that the user has not preloaded."""
    wanted = dict.fromkeys((*(target.elf.sanitizers if target.elf else ()), *shim.before))
    already = environ.get("LD_PRELOAD", "")
    return tuple(name for name in wanted if name not in already)


def _try_loading(
    target: Target, elf: ElfFacts, entries: tuple[str, ...], environ: Mapping[str, str]
) -> str:
    """What the program's own loader says against the shim; "" when it says nothing.

    A missing version of libc ("version `GLIBC_2.38' not found") would end the program before
    main, and a library that is ignored means no mirror: both are found here, before anything
    is started.
    """
    loader = target.loader or (elf.loader or "",)
    command = [*loader, "--list", str(target.image)]
    with_shim = {**environ, "LD_PRELOAD": extended_preload(environ, entries)}
    says = _loader_says(command, with_shim)
    if says is None or (says.returncode == 0 and not says.stderr):
        return ""
    shim = entries[-1]
    for line in says.stderr.splitlines():
        if shim in line:
            return line.rpartition(f"{shim}'")[2].strip(" :") or line
    # A library that the shim needs is missing: the loader names that library alone. A program
    # that does not load without the shim either has a trouble of its own.
    without = _loader_says(command, environ)
    if says.returncode and without is not None and without.returncode == 0:
        return says.stderr.strip().rpartition("\n")[2]
    return ""


def _loader_says(
    command: list[str], environ: Mapping[str, str]
) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TRIAL_SECONDS,
            errors="replace",
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None


def extended_preload(environ: Mapping[str, str], entries: tuple[str, ...]) -> str:
    """LD_PRELOAD with the entries added behind those that stand there.

    The user's text is kept as it is. An entry that is already there is not added again.
    """
    standing = environ.get("LD_PRELOAD", "")
    present = set(standing.replace(":", " ").split())
    added = [entry for entry in entries if entry not in present]
    return os.pathsep.join([standing, *added] if standing.strip(": ") else added)
