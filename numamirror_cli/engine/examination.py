"""Look at a command, a library or a running process before anything is started: what `check` says.

`run` uses the quick part of it (what the program itself is linked with) for its plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from numamirror_cli.engine.elf import ElfFacts, is_for_this_machine
from numamirror_cli.engine.engines import (
    Engine,
    find_engines,
    loads_more,
    read_images,
)
from numamirror_cli.engine.followed import (
    Followed,
    follow_beside,
    follow_command,
    follow_library,
    named_in_arguments,
)
from numamirror_cli.engine.libraries import linked_files
from numamirror_cli.engine.own_mirror import asks_for_mirror
from numamirror_cli.engine.preload import Preload, judge_preload
from numamirror_cli.engine.privileges import Caller
from numamirror_cli.engine.python_path import is_python
from numamirror_cli.engine.reach import (
    POLICY_ONLY,
    Reach,
    reach_of_engine,
    reach_without_engine,
    under_preload,
    worst,
)
from numamirror_cli.engine.shell_words import is_shell
from numamirror_cli.engine.shim import SHIM_NAME, Shim

_OWN_MIRROR = (
    "it is asked to mirror by itself (--numa mirror): the shim makes no second set of copies"
)


@dataclass(frozen=True)
class Found:
    """An engine and how far the shim reaches in it."""

    engine: Engine
    reach: Reach


@dataclass(frozen=True)
class Examination:
    """subject: what was asked about. followed: the files it came down to. libc: "glibc", "musl",
    "none" of a static program, "" when no file says.

    preload: whether LD_PRELOAD is honoured, None where that depends on the program that loads it.
    seccomp: the mode of the filter under which it runs or would run (proc(5), status: 0 none,
    1 strict, 2 filter), None when unknown; refused, deadly: our system calls that it refuses, or
    kills for, as far as that was tried. reach: the verdict on the whole.
    """

    subject: str
    followed: Followed
    engines: tuple[Found, ...]
    libc: str
    preload: Preload | None
    reach: Reach
    seccomp: int | None = None
    refused: tuple[str, ...] | None = None
    deadly: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Running:
    """A process, as far as /proc tells. program: its file; mapped: files of which code is mapped;
    environ: its environment, empty when it may not be read. seccomp: as in Examination."""

    pid: int
    program: Path
    arguments: tuple[str, ...]
    mapped: tuple[Path, ...]
    environ: Mapping[str, str]
    seccomp: int | None = None


def examine_command(
    command: Sequence[str], shim: Shim, caller: Caller, environ: Mapping[str, str]
) -> Examination:
    """Examine a command line. Raises NumaMirrorError (127, 126) when there is no program."""
    followed, engines = look_into(command, environ)
    target = followed.target
    assert target is not None
    programs = (target, *followed.started) if engines else (target,)
    preloads = [judge_preload(program, shim, caller, environ) for program in programs]
    preload = next((p for p in preloads if not p.reaches_program), preloads[0])
    reach = overall(engines, followed, target.arguments)
    return Examination(
        subject=" ".join(command),
        followed=followed,
        engines=engines,
        libc=_libc(followed),
        preload=preload,
        reach=under_preload(reach, preload),
    )


def look_into(
    command: Sequence[str], environ: Mapping[str, str]
) -> tuple[Followed, tuple[Found, ...]]:
    """The files of a command and the engines in them. Raises NumaMirrorError (127, 126)."""
    followed = follow_command(command, environ)
    target = followed.target
    assert target is not None
    engines = _examined(followed)
    for look_further in (named_in_arguments, follow_beside):
        if engines:
            break
        further = look_further(target, environ)
        if engines := _examined(further):
            files = tuple(dict.fromkeys((*followed.files, *further.files)))
            followed = replace(followed, files=files, missing=followed.missing + further.missing)
    if not engines:
        followed = replace(followed, unfollowed=followed.unfollowed + _why_unknown(followed))
        return followed, ()
    return _without_tools(followed, engines, environ), engines


def _without_tools(
    followed: Followed, engines: Sequence[Found], environ: Mapping[str, str]
) -> Followed:
    """Of the programs that a script names, those with an engine; not `dirname` and the like."""
    holding = {file for found in engines for file in found.engine.libraries}
    started = (t for t in followed.started if holding & set(linked_files(t.image, environ).files))
    return replace(followed, started=tuple(started))


def examine_library(path: Path, shim: Shim, environ: Mapping[str, str]) -> Examination:
    """Examine a library, or any other ELF file that is no program. Raises OSError."""
    followed = follow_library(path, environ)
    engines = _examined(followed)
    reach = overall(engines, followed, ())
    if harm := _foreign(followed):
        reach = harm
    elif shim.path is None and shim.problem is not None:
        reach = Reach(POLICY_ONLY, shim.problem.what, shim.problem.remedy)
    return Examination(str(path), followed, engines, _libc(followed), None, reach)


def examine_running(running: Running, shim: Shim, caller: Caller) -> Examination:
    """Examine a process by what it has mapped; what it will load later is not known."""
    by_file = follow_command([str(running.program)], running.environ)
    target = by_file.target
    assert target is not None
    target = replace(target, arguments=running.arguments[1:])
    # The shim has an engine's functions, and is none.
    files = tuple(file for file in running.mapped or by_file.files if file.name != SHIM_NAME)
    followed = Followed(target, files)
    engines = _examined(followed)
    if not engines:
        followed = replace(followed, unfollowed=("what it loads later is not known",))
    preload = judge_preload(target, shim, caller, running.environ)
    if is_shim_loaded(running):
        preload = replace(preload, reaches_program=True, notice=None)
    reach = overall(engines, followed, running.arguments, running.pid)
    reach = under_preload(reach, preload)
    libc, seccomp = _libc(followed), running.seccomp
    return Examination(str(running.pid), followed, engines, libc, preload, reach, seccomp)


def is_shim_loaded(running: Running) -> bool:
    """The process already runs with the shim inside."""
    return any(file.name == SHIM_NAME for file in running.mapped)


def _examined(followed: Followed) -> tuple[Found, ...]:
    return tuple(Found(e, reach_of_engine(e)) for e in find_engines(followed.files))


def overall(
    engines: Sequence[Found], followed: Followed, arguments: Sequence[str], pid: int | None = None
) -> Reach:
    """The verdict on all that was found, before it is asked whether the shim gets in."""
    if not engines:
        return reach_without_engine(len(followed.files), followed.unfollowed, pid)
    if any(found.engine.own_mirror for found in engines) and asks_for_mirror(arguments):
        return Reach(POLICY_ONLY, _OWN_MIRROR, "leave --numa mirror out to use the shim instead")
    return worst([found.reach for found in engines])


def _why_unknown(followed: Followed) -> tuple[str, ...]:
    """What may still load an engine although none was found."""
    target = followed.target
    if target is None or followed.unfollowed:
        return ()
    if is_python(target.image):
        return ("what its modules load at run time is not followed",)
    if is_shell(target.image):
        return ("what its script starts could not be followed",)
    if loads_more(target.image):
        return ("it loads libraries by itself (dlopen), which are not followed",)
    return ()


def _libc(followed: Followed) -> str:
    """Which C library the program is built for, or the first file that says."""
    target = followed.target
    facts = [target.elf] if target and target.elf else []
    facts += [image.elf for image in read_images(followed.files)]
    return next((libc for elf in facts if (libc := _libc_of(elf))), "")


def _libc_of(elf: ElfFacts) -> str:
    if elf.uses_musl:
        return "musl"
    if any(name.startswith(("libc.so", "ld-linux")) for name in elf.needed):
        return "glibc"
    return "none" if elf.is_program and elf.loader is None else ""


def _foreign(followed: Followed) -> Reach | None:
    for image in read_images(followed.files[:1]):
        if not is_for_this_machine(image.elf):
            machine = image.elf.machine.removeprefix("EM_")
            why = f"it is built for another machine ({machine}, {image.elf.bits} bit)"
            return Reach(POLICY_ONLY, why, "use a native build of the engine")
        if image.elf.uses_musl:
            why = "it uses musl's loader, and the shim is built for glibc"
            return Reach(POLICY_ONLY, why, "use a glibc build of the engine")
    return None
