"""`make screens`: every command as a new user would type it, on two nodes and on one.

Boots both machines under QEMU, types, and writes what was to be seen to docs/screens.md. Two of
the screens are the session of the README, which is written too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import session
from guest_screens import (
    ENGINE,
    MODEL,
    REPOSITORY,
    Screen,
    ended,
    failures,
    plain,
    started,
    take,
    typed,
)

from guest.catalogue import ONE_NODE, TWO_NODES  # isort: skip
from guest.vm import Guest, Result  # isort: skip

PAGE = REPOSITORY / "docs" / "screens.md"
COLUMNS = 80
PLAIN = f"{ENGINE} --stay"
REHEARSAL = f"numamirror run --rehearse 2 --min-size 0 -- {ENGINE}"

BEFORE = """\
# What one sees

Every command on a machine with two nodes, then on one with one node. `make
screens` has typed all of this in one run on two machines that QEMU emulates,
which makes their speeds meaningless; the engine is llama.cpp in a
[Python program](recipes/answer.py), with Gemma 3 270M. Nothing was edited.
"""


@dataclass(frozen=True)
class Chapter:
    """Screens of one machine, in the order in which they are typed; unshown ones have no text."""

    title: str
    guest: Guest
    screens: tuple[tuple[str, Screen], ...]


def watched(command: str) -> Screen:
    """A still of it."""
    script = f"timeout -s INT 20 {command} --interval 60 > still; test $? = 124; cat still"
    return Screen("watch", command, script)


TWO = Chapter(
    "Two nodes, two GPUs on one of them",
    TWO_NODES,
    # bench last: with its figures, run would weigh the strategies by emulated speeds.
    (
        ("Where are nodes, memory and GPUs?", session.TOPOLOGY),
        ("The same as a drawing", Screen("drawing", "numamirror topology --draw")),
        ("What stands in the way?", Screen("doctor", f"numamirror doctor -- {ENGINE}")),
        ("Can this engine be mirrored?", Screen("check", f"numamirror check -- {ENGINE}")),
        ("Where is the model's page cache?", Screen("cache", f"numamirror cache {MODEL}")),
        ("Bring it to node 1", Screen("warm", f"numamirror cache {MODEL} --warm 1")),
        ("", started("plain", PLAIN)),
        (
            "An engine that was started without us",
            Screen("plain inspect", "numamirror inspect answer.py"),
        ),
        ("", ended("plain", PLAIN)),
        ("", session.RUN_STARTS),
        (
            "A mirrored one, while it runs, from another terminal",
            Screen("inspect", "numamirror inspect answer.py"),
        ),
        ("The same, again and again", watched("numamirror inspect answer.py --watch")),
        (
            "Is it still settling?",
            Screen("settled", "numamirror inspect answer.py --until-settled --quiet-for 2"),
        ),
        ("A mirrored run, from start to end", session.RUN),
        (
            "What would it read from where without us?",
            Screen("observe", f"numamirror observe -- {ENGINE}", coloured=True),
        ),
        ("How fast is the memory?", Screen("bench", "numamirror bench --seconds 0.1")),
        ("What would which strategy give?", Screen("plan", f"numamirror plan {MODEL}")),
    ),
)
ONE = Chapter(
    "One node",
    ONE_NODE,
    (
        ("Where are nodes, memory and GPUs?", Screen("topology", "numamirror topology")),
        ("What stands in the way?", Screen("doctor", "numamirror doctor")),
        ("A run", Screen("run", f"numamirror run -- {ENGINE}", coloured=True)),
        (
            "A rehearsal with two pretend nodes",
            Screen("rehearsal", REHEARSAL, coloured=True),
        ),
    ),
)


def text_of(chapter: Chapter, results: Mapping[str, Result]) -> str:
    parts = [f"## {chapter.title}\n"]
    for heading, screen in chapter.screens:
        if heading:
            parts.append(f"### {heading}\n\n```text\n{plain(typed(screen, results))}```\n")
    return "\n".join(parts)


def too_wide(page: str) -> list[str]:
    return [line for line in page.splitlines() if len(line) > COLUMNS and not line.startswith("$ ")]


def main() -> None:
    page, wrong = BEFORE, []
    for chapter in (TWO, ONE):
        screens = [screen for _, screen in chapter.screens]
        results = take(chapter.guest, screens)
        wrong += failures(screens, results)
        page += f"\n{text_of(chapter, results)}"
        PAGE.write_text(page)
        if chapter is TWO:
            session.write(results)
    print(f"wrote {PAGE.relative_to(REPOSITORY)}")
    wrong += [f"wider than {COLUMNS} columns: {line}" for line in too_wide(page)]
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
