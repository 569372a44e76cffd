"""An examination as text and as JSON (version 1, docs/json.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from numamirror_cli.engine.engines import IN_PROGRAM_NAMED, Engine
from numamirror_cli.engine.examination import Examination, Found
from numamirror_cli.engine.reach import DENSE_ONLY, FULL, POLICY_ONLY, UNKNOWN, Reach
from numamirror_cli.engine.symbols import Symbol
from numamirror_cli.quoting import printable
from numamirror_cli.report.folded import Folded
from numamirror_cli.report.tables import facts_table

SCHEMA = 1
_STYLES = {FULL: "green", DENSE_ONLY: "yellow", POLICY_ONLY: "red", UNKNOWN: "yellow"}
_LIBC = {"none": "none: linked statically", "": "not known"}
_SECCOMP = {0: "none", 1: "strict", 2: "a filter is on"}
_FILTER = 2


def render_check(examination: Examination) -> RenderableType:
    """What was found, a line for each fact; the verdict and its remedy last."""
    rows = [
        ("" if number else heading, line)
        for heading, lines in _facts(examination)
        for number, line in enumerate(lines)
    ]
    return Group(facts_table(rows), Text(), *_verdict(examination.reach))


def _facts(examination: Examination) -> Iterator[tuple[str, list[str]]]:
    followed = examination.followed
    if followed.target is not None:
        chain = [*followed.target.chain, *(target.image for target in followed.started)]
        yield "Program", [" -> ".join(map(str, followed.target.chain))]
        yield "Starts", [str(path) for path in chain[len(followed.target.chain) :]]
    for found in examination.engines:
        yield from _engine_facts(found, several=len(examination.engines) > 1)
    yield "Libc", [_LIBC.get(examination.libc, examination.libc)]
    if examination.preload is not None:
        honoured = examination.preload.reaches_program
        notice = examination.preload.notice
        yield (
            "Preload",
            ["honoured" if honoured else f"not honoured: {notice.why if notice else ''}"],
        )
    else:
        yield "Preload", ["up to the program that loads this library"]
    if examination.seccomp is not None:
        yield "Seccomp", [_seccomp(examination, examination.seccomp)]
    yield "Not found", list(followed.missing)
    yield "Not seen", list(followed.unfollowed)


def _seccomp(examination: Examination, mode: int) -> str:
    """The filter, and what it does about our calls where that was tried."""
    said = _SECCOMP.get(mode, f"mode {mode}")
    refused, deadly = examination.refused, examination.deadly
    if mode != _FILTER:
        # Of a process that runs: it may set one yet.
        return f"{said} so far" if mode == 0 and refused is None else said
    if refused is None or deadly is None:
        return f"{said}: it may refuse memory policy calls"
    does = [f"it refuses {', '.join(refused)}"] if refused else []
    does += [f"it kills for {', '.join(deadly)}"] if deadly else []
    return f"{said}: {', and '.join(does) or 'it allows all that is needed'}"


def _engine_facts(found: Found, *, several: bool) -> Iterator[tuple[str, list[str]]]:
    engine = found.engine
    yield "Engine", [engine.name_and_version]
    yield "Shape", [engine.shape]
    yield "Computes in", _shortened(engine.backends)
    yield "Seams", list(_seam_lines(engine))
    if own := engine.own_mirror:
        named = f"; its home node: {own.home_variable}" if own.home_variable else ""
        yield "Own mirror", [f"this build has a --numa mirror of its own{named}"]
    if several:
        yield "Verdict", [f"{found.reach.level}: {found.reach.why}"]


def _shortened(paths: Sequence[Path]) -> list[str]:
    """One path; of several, how many and where."""
    if len(paths) < 2:
        return list(map(str, paths))
    directories = dict.fromkeys(str(path.parent) for path in paths)
    return [f"one of {len(paths)} libraries in {', '.join(directories)}"]


def _seam_lines(engine: Engine) -> Iterator[str]:
    seams = engine.seams
    if not seams.found and not seams.lacking:
        return
    how = "inside the program" if engine.shape == IN_PROGRAM_NAMED else "through the loader"
    if not seams.closed:
        yield f"{len(seams.found)} found, all called {how}"
    else:
        yield f"{len(seams.found)} found; {len(seams.closed)} are not called {how}:"
        yield f"  {_names(seams.closed)}"
    if seams.lacking:
        yield f"lacking: {_names(seams.lacking)}"
    if seams.absent:
        yield f"optional and not in this version: {_names(seams.absent)}"


def _names(symbols: Sequence[Symbol], most: int = 4) -> str:
    """The first few names, and how many more there are."""
    named = ", ".join(symbol.name for symbol in symbols[:most])
    return named + (f" and {len(symbols) - most} more" if len(symbols) > most else "")


def _verdict(reach: Reach) -> Iterator[RenderableType]:
    label = Text(f"{reach.level}: ", style=_STYLES[reach.level])
    yield label.append(printable(reach.why), style="default")
    if reach.remedy:
        yield Padding(Folded(reach.remedy), (0, 0, 0, 4))


def check_json(examination: Examination) -> dict[str, Any]:
    """The document of `check --json`."""
    followed, preload = examination.followed, examination.preload
    target = followed.target
    return {
        "schema": SCHEMA,
        "subject": examination.subject,
        "program": None if target is None else str(target.path),
        "chain": [] if target is None else [str(path) for path in target.chain],
        "starts": [str(started.image) for started in followed.started],
        "engines": [_engine_json(found) for found in examination.engines],
        "libc": examination.libc or None,
        "preload": None
        if preload is None
        else {
            "honoured": preload.reaches_program,
            "why_not": "" if preload.notice is None else preload.notice.why,
        },
        "seccomp": examination.seccomp,
        "refused_calls": examination.refused,
        "deadly_calls": examination.deadly,
        "files": [str(path) for path in followed.files],
        "missing_libraries": list(followed.missing),
        "not_followed": list(followed.unfollowed),
        "verdict": _reach_json(examination.reach),
    }


def _engine_json(found: Found) -> dict[str, Any]:
    engine = found.engine
    seams = engine.seams
    return {
        "name": engine.name,
        "version": engine.version or None,
        "shape": engine.shape,
        "family": engine.family.lower(),
        "libraries": [str(path) for path in engine.libraries],
        "backends": [str(path) for path in engine.backends],
        "seams": {
            "found": [symbol.name for symbol in seams.found],
            "not_interposable": [symbol.name for symbol in seams.closed],
            "required_missing": [symbol.name for symbol in seams.lacking],
            "optional_missing": [symbol.name for symbol in seams.absent],
        },
        "mirrors_itself": engine.own_mirror is not None,
        "own_home_variable": (engine.own_mirror and engine.own_mirror.home_variable) or None,
        "verdict": _reach_json(found.reach),
    }


def _reach_json(reach: Reach) -> dict[str, str]:
    return {"level": reach.level, "why": reach.why, "remedy": reach.remedy}
