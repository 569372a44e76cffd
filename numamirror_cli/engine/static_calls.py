"""The seams of an engine that is linked into its program, as the shim finds them when it is loaded.

The shim leads the calls of such an engine to itself where the program's symbol table (.symtab) was
kept; native/src/static_program.c says by which rules. Here the distances that lead to a function
are counted. The shim decodes each call, and is asked what it makes of the file.
"""

from __future__ import annotations

import functools
import os
import re
import struct
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numamirror_cli.engine.elf import errors_of_broken_files
from numamirror_cli.engine.shim import find_shim

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

# The only machine whose calls the shim can lead elsewhere.
MACHINE = "EM_X86_64"
_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym: name, info, other, section, value, size
# The opcodes of a call, a jump, and a jump on a condition; the distance stands behind them. Not by
# numpy, which asks for policies of memory when it is imported: a filter may kill for that.
_CALL = re.compile(rb"[\xe8\xe9]|\x0f[\x80-\x8f]", re.DOTALL)
_DISTANCE = struct.Struct("<i")
_FUNCTION, _FILE, _UNDEFINED, _EXECUTABLE = 2, 4, 0, 1
# One of the engine's files, of which the table tells where they were compiled one by one.
_OWN_FILE = b"ggml-backend."

# Preloaded, since its thread-local memory has no place in a process that has begun.
_ASK_THE_SHIM = """
import ctypes, os, sys
why = ctypes.create_string_buffer(300)
look = ctypes.CDLL(None).numamirror_look_inside
if look(os.fsencode(sys.argv[1]), why, ctypes.c_size_t(len(why))) == 0:
    print(why.value.decode())
"""
# It takes a tenth of a second.
_PATIENCE_SECONDS = 10.0

# The words of native/src/static_program.c and static_calls.c, where the shim says it too.
NO_NAMES = "its functions are inside the program and have no names any more"
OTHER_MACHINE = "it is linked into the program, where the shim reaches it on x86-64 only"
LTO = "its files were compiled as one (LTO), and calls were compiled in"
SOME_NAMELESS = "some of its functions have no name any more (strip -x)"


@dataclass(frozen=True)
class Inside:
    """called: those of the functions that the program's symbol table names, and whether code calls
    them. obstacle: why the shim cannot lead those calls to itself, "" when nothing is known
    against it."""

    called: Mapping[str, bool] = field(default_factory=dict)
    obstacle: str = ""


@functools.lru_cache(maxsize=64)
def look_inside(path: Path, names: frozenset[str]) -> Inside:
    """What a program has of an engine's functions; a broken or unreadable file has no names."""
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as stream:
            inside = _look(ELFFile(stream), names)
    except errors_of_broken_files():
        return Inside(obstacle=NO_NAMES)
    if inside.obstacle or not inside.called:
        return inside
    return Inside(inside.called, _obstacle_by_the_shim(path))


def _obstacle_by_the_shim(program: Path) -> str:
    """What the shim says against leading the program's calls to itself; "" also where it cannot be
    asked. It looks at the file in a process of its own, and starts nothing of it."""
    shim = find_shim(os.environ).path
    if shim is None:
        return ""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("NUMAMIRROR_")}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _ASK_THE_SHIM, str(program)],
            env={**environ, "LD_PRELOAD": str(shim)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _look(file: ELFFile, names: frozenset[str]) -> Inside:
    table: Any = file.get_section_by_name(".symtab")
    if table is None:
        return Inside(obstacle=NO_NAMES)
    if file["e_machine"] != MACHINE:
        return Inside(obstacle=OTHER_MACHINE)
    strings = file.get_section(table["sh_link"]).data()
    places: dict[str, set[tuple[int, int]]] = {}
    everything: list[tuple[int, int]] = []
    own_file = False
    for start, info, _, where, value, size in _SYMBOL.iter_unpack(table.data()):
        kind = info & 15
        own_file |= kind == _FILE and strings.startswith(_OWN_FILE, start)
        if kind == _FUNCTION and where != _UNDEFINED and size:
            everything.append((value, value + size))
            name = strings[start : strings.index(b"\0", start)].decode(errors="replace")
            if name in names:
                places.setdefault(name, set()).add((value, value + size))
    if not own_file:
        return Inside(obstacle=LTO)
    # Of two that differ neither is known to be the one.
    known = {name: next(iter(found)) for name, found in places.items() if len(found) == 1}
    calls = list(_calls(file, dict(known.values())))
    if not _all_lie_within(everything, [place for place, _ in calls]):
        return Inside(obstacle=SOME_NAMELESS)
    called = {start for _, start in calls}
    return Inside({name: start in called for name, (start, _) in known.items()})


def _calls(file: ELFFile, functions: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Where a call or jump leads from elsewhere to the start of one of them, and that start.

    functions: start -> end.
    """
    distance_at = _DISTANCE.unpack_from
    for segment in file.iter_segments("PT_LOAD"):
        if not segment["p_flags"] & _EXECUTABLE:
            continue
        code, base = segment.data(), segment["p_vaddr"] + _DISTANCE.size
        for call in _CALL.finditer(code, 0, max(len(code) - _DISTANCE.size, 0)):
            at = call.end()
            start = base + at + distance_at(code, at)[0]
            if start in functions:
                place = segment["p_vaddr"] + at
                if not start <= place < functions[start]:
                    yield place, start


def _all_lie_within(functions: list[tuple[int, int]], places: list[int]) -> bool:
    """Whether each place is inside a function; not so where `strip -x` took private names away."""
    functions = sorted(functions)
    starts = [start for start, _ in functions]
    before = [bisect_right(starts, place) - 1 for place in places]
    return all(
        at >= 0 and place < functions[at][1] for at, place in zip(before, places, strict=True)
    )
