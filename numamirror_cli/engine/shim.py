"""The shim on this machine: where libnumamirror.so is, and whether it can be preloaded at all."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numamirror_cli
from numamirror_cli.engine.elf import is_for_this_machine, read_elf
from numamirror_cli.engine.status_layout import VERSION, StatusLayout, layout_in
from numamirror_cli.notice import Notice

SHIM_NAME = "libnumamirror.so"
SHIM_VARIABLE = "NUMAMIRROR_SHIM"

# ld.so(8): spaces and colons separate entries of LD_PRELOAD, "$" starts a token such as $LIB.
_UNSPELLABLE = re.compile(r"[\s:$]")


@dataclass(frozen=True)
class Shim:
    """path: the file to preload, None when there is none that can be; problem: why, then.

    before: libraries that must stand before it in LD_PRELOAD, since it is built with sanitizers.
    """

    path: Path | None
    problem: Notice | None = None
    before: tuple[str, ...] = ()


def find_shim(environ: Mapping[str, str]) -> Shim:
    """The shim named by NUMAMIRROR_SHIM, else the installed one, else a source tree's newest that
    can be used.

    A file that the loader would refuse, that would keep a glibc program from starting, or whose
    status page we cannot read, is reported as a problem, never returned as a path.
    """
    if named := environ.get(SHIM_VARIABLE):
        return _checked(Path(named).absolute())
    problem = None
    for candidate in _candidates(Path(numamirror_cli.__file__).parent.resolve()):
        found = _checked(candidate)
        # A developer's sanitizer build would change the program that is run: only by name.
        if found.path is not None and not found.before:
            return found
        problem = problem or found.problem
    nothing = Notice(
        f"{SHIM_NAME} was not found",
        "the package was installed without its native part",
        f"reinstall numamirror, or name the file in {SHIM_VARIABLE}",
    )
    return Shim(None, problem or nothing)


def _candidates(package: Path) -> Iterator[Path]:
    installed = package / "lib" / SHIM_NAME
    if installed.exists():
        yield installed
    built = list(package.parent.glob(f"build/*/{SHIM_NAME}"))
    yield from sorted(built, key=lambda path: path.stat().st_mtime, reverse=True)


def _checked(path: Path) -> Shim:
    try:
        elf = read_elf(path)
    except OSError as error:
        return _unusable(path, f"{error.strerror}", f"name the right file in {SHIM_VARIABLE}")
    rebuild = "reinstall numamirror for this machine"
    if elf is None or not elf.dynamic:
        return _unusable(path, "it is no shared library", rebuild)
    if not is_for_this_machine(elf):
        return _unusable(path, f"it was built for another machine ({elf.machine})", rebuild)
    if elf.uses_musl:
        return _unusable(path, "it was built for another libc (musl)", rebuild)
    if layout_in(path) not in (None, (VERSION, ctypes.sizeof(StatusLayout))):
        why = "it was built from other sources, and its status page cannot be read by these"
        return _unusable(path, why, "reinstall numamirror, or build it anew")
    if _UNSPELLABLE.search(str(path)):
        return _unusable(
            path,
            "LD_PRELOAD cannot spell a path with spaces, colons or dollar signs",
            "install numamirror under another path",
        )
    return Shim(path, before=elf.sanitizers)


def _unusable(path: Path, why: str, remedy: str) -> Shim:
    return Shim(None, Notice(f"{path}: cannot be preloaded", why, remedy))
