"""What `run` knows of a mirror in a program before it starts it: the look of `check`, cut short.

A verdict that is not certain changes nothing: the shim looks again when the engine computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from numamirror_cli.engine.marks import CPU_CODE, contains
from numamirror_cli.engine.own_mirror import asks_for_mirror
from numamirror_cli.engine.preload import Preload
from numamirror_cli.engine.symbols import MAINLINE
from numamirror_cli.engine.target import Target
from numamirror_cli.notice import Notice

if TYPE_CHECKING:
    from numamirror_cli.engine.examination import Found
    from numamirror_cli.engine.followed import Followed


def foresee(
    command: Sequence[str],
    target: Target,
    preload: Preload,
    environ: Mapping[str, str],
    *,
    thorough: bool,
) -> Preload:
    """The preload for `run`, given up where it is certain that nothing would be mirrored by it.

    thorough: follow the command as `check` does; else only a look into the program's own file,
    which takes no time. An engine that is told to mirror by itself gets no shim beside it.
    """
    if not preload.reaches_program:
        return preload
    asked = asks_for_mirror(target.arguments)
    if not (thorough or asked or contains(target.image, CPU_CODE)):
        return preload
    # Imported here: most starts need none of it, and are not to wait for it.
    from numamirror_cli.engine.examination import look_into

    followed, engines = look_into(command, environ)
    return _given_up(target, followed, engines, preload) if engines else preload


def divides_by_rows(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether the engines in a command are known, and all of a kind whose threads pass the shim
    with their op, so that they can be held to their rows. ik_llama.cpp's do not."""
    from numamirror_cli.engine.examination import look_into

    _, engines = look_into(command, environ)
    return bool(engines) and all(
        found.engine.family == MAINLINE and found.reach.mirrors for found in engines
    )


def _given_up(
    target: Target, followed: Followed, engines: Sequence[Found], preload: Preload
) -> Preload:
    from numamirror_cli.engine.examination import overall
    from numamirror_cli.engine.reach import POLICY_ONLY

    own = next((found.engine.own_mirror for found in engines if found.engine.own_mirror), None)
    asked = own is not None and asks_for_mirror(target.arguments)
    if not asked and any(found.reach.level != POLICY_ONLY for found in engines):
        return preload
    reach = overall(engines, followed, target.arguments)
    engine = next(found.engine for found in engines if asked or found.reach == reach)
    version = engine.name_and_version if engine.version else "of a version that it does not tell"
    what = f"{engine.backends[0].name} ({version}): policy only"
    notice = Notice(what, reach.why, reach.remedy)
    if asked:
        return Preload((), False, notice, "the engine mirrors by itself", own)
    # What it starts in turn may still be an engine, so the preload stays set.
    return Preload(preload.entries, False, notice, "the shim finds no way into the engine")
