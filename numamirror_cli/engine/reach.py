"""How far a mirror will reach in a program: all GEMM weights, dense ones only, or none of them.

Pure decisions over what was found. The shim has the last word at run time: it looks for the same
functions, and gives no replicas where ops do not pass them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from numamirror_cli.engine.engines import (
    HIDDEN_IN_LIBRARY,
    IN_PROGRAM,
    IN_PROGRAM_NAMED,
    IN_PROGRAM_STRIPPED,
    Engine,
    Seams,
)
from numamirror_cli.engine.preload import Preload
from numamirror_cli.engine.static_calls import NO_NAMES
from numamirror_cli.engine.symbols import Symbol

FULL, DENSE_ONLY, POLICY_ONLY, UNKNOWN = "full", "dense only", "policy only", "unknown"
_FROM_WORST = (POLICY_ONLY, UNKNOWN, DENSE_ONLY, FULL)

# Seams through which an engine reads its experts one by one.
_ROW_GROUPS = ("ARGUMENT_SEAMS", "VEC_DOTS")

_SHARED_LIBRARIES = "shared libraries (-DBUILD_SHARED_LIBS=ON)"
_CLOSED_BUILD, _OPEN_BUILD = "(LTO, -Bsymbolic or hidden symbols)", "use a build without these"
_WITHOUT_SEAMS = {
    HIDDEN_IN_LIBRARY: "its functions are inside a library that does not export them",
    IN_PROGRAM: "its functions are inside the program, which finds its own before any preload",
    IN_PROGRAM_STRIPPED: NO_NAMES,
}
# By native/src/static_program.c.
_LED = "its calls pass no loader; the shim leads them to itself in memory, by its symbol table"


@dataclass(frozen=True)
class Reach:
    """level: FULL, DENSE_ONLY, POLICY_ONLY or UNKNOWN; why: one phrase; remedy: "" for none."""

    level: str
    why: str
    remedy: str = ""

    @property
    def mirrors(self) -> bool:
        return self.level in (FULL, DENSE_ONLY)


def reach_of_engine(engine: Engine) -> Reach:
    """What the shim can do with an engine, once it is loaded beside it."""
    led = engine.shape == IN_PROGRAM_NAMED and bool(engine.seams.found)
    if not led and (why := _WITHOUT_SEAMS.get(engine.shape, engine.seams.obstacle)):
        stripped = engine.shape == IN_PROGRAM_STRIPPED
        remedy = "use a build that was not stripped or has " if stripped else "use a build with "
        return Reach(POLICY_ONLY, why, remedy + _SHARED_LIBRARIES)
    seams = engine.seams
    if seams.lacking:
        return Reach(
            POLICY_ONLY,
            f"it has no {_some(seams.lacking)}, which the shim needs",
            "report the engine's version; it runs without replicas",
        )
    if needed := [s for s in seams.closed if s.is_needed_by(engine.family)]:
        if led:
            why = f"calls of {_some(needed)} were compiled in when it was built"
            return Reach(POLICY_ONLY, why, f"use a build with {_SHARED_LIBRARIES}")
        return Reach(
            POLICY_ONLY,
            f"calls of {_some(needed)} were bound when it was built {_CLOSED_BUILD}",
            _OPEN_BUILD,
        )
    rows = [s for s in seams.found if s.group in _ROW_GROUPS]
    if past := [s for s in seams.closed if s in rows]:
        why = f"experts are read past the shim: calls of {_some(past)} were bound when it was built"
        return Reach(DENSE_ONLY, f"{why} {_CLOSED_BUILD}", _OPEN_BUILD)
    if not rows:
        why = "experts are read past the shim: it has none of their functions"
        return Reach(DENSE_ONLY, why, "use a newer build, if the model has experts")
    return Reach(FULL, _LED if led else _how_open(seams))


def _how_open(seams: Seams) -> str:
    found, is_open = len(seams.found), len(seams.found) - len(seams.closed)
    if is_open == found:
        return f"all of its {found} seams are called through the loader"
    return f"{is_open} of its {found} seams are called through the loader, all that weights pass"


def worst(reaches: Sequence[Reach]) -> Reach:
    """What holds for several engines of one program: no more than for the least of them."""
    return min(reaches, key=lambda reach: _FROM_WORST.index(reach.level))


def under_preload(reach: Reach, preload: Preload) -> Reach:
    """The same, when the shim must first be let into the program."""
    if preload.reaches_program and preload.entries:
        return reach
    if preload.notice is None:
        return Reach(POLICY_ONLY, "the shim cannot be loaded into the program")
    return Reach(POLICY_ONLY, preload.notice.why, preload.notice.remedy)


def reach_without_engine(files: int, unfollowed: Sequence[str], pid: int | None = None) -> Reach:
    """No ggml was found. files: how many were looked at; unfollowed: where it may still be."""
    if not unfollowed:
        return Reach(POLICY_ONLY, f"there is no ggml in {_it_and_libraries(files - 1)}")
    ask = "numamirror check PID, once it runs" if pid is None else "check it again when it computes"
    return Reach(UNKNOWN, f"no ggml was found; {unfollowed[0]}", ask)


def _it_and_libraries(libraries: int) -> str:
    if libraries < 1:
        return "it"
    which = "library" if libraries == 1 else f"{libraries} libraries"
    return f"it and the {which} that it loads"


def _some(symbols: Sequence[Symbol]) -> str:
    """The first name, and how many more."""
    more = f" and {len(symbols) - 1} more" if len(symbols) > 1 else ""
    return f"{symbols[0].name}{more}"
