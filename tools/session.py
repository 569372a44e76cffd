"""`make session`: what a person sees on two nodes, taken on a two-node kernel in QEMU.

Writes docs/session.txt and docs/session.svg and puts the text into README.md, between its
markers. Nothing in them is written by hand.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping

from guest_screens import (
    ENGINE,
    REPOSITORY,
    Screen,
    ended,
    failures,
    plain,
    started,
    take,
    typed,
)
from rich.console import Console
from rich.text import Text

from guest.catalogue import TWO_NODES  # isort: skip
from guest.vm import Result  # isort: skip

BEGIN, END = "<!-- session: made by `make session` -->", "<!-- end of session -->"
PICTURE_COLUMNS = 80
# Gemma 3 270M is so small that a fifth of it lies in matrices below the default of 1 MiB.
COMMAND = f"numamirror run --min-size 0 -- {ENGINE} --stay"
TOPOLOGY = Screen("topology", "numamirror topology", coloured=True)
RUN_STARTS, RUN = started("run", COMMAND), ended("run", COMMAND)
SCREENS = (TOPOLOGY, RUN_STARTS, RUN)


def picture(coloured: str) -> str:
    """The session as an SVG that fetches no fonts, as rich's own would, and keeps its columns in
    viewers that drop leading spaces."""
    console = Console(record=True, width=PICTURE_COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(coloured))
    svg = console.export_svg(title="two NUMA nodes, emulated by QEMU", unique_id="session")
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def put_into_readme(text: str) -> None:
    readme = REPOSITORY / "README.md"
    before, _, rest = readme.read_text().partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"README.md: no {BEGIN} ... {END}")
    readme.write_text(f"{before}{BEGIN}\n```text\n{text}```\n{END}{after}")


def write(results: Mapping[str, Result]) -> None:
    """Raises SystemExit showing what failed, and changes nothing then."""
    if failed := failures(SCREENS, results):
        raise SystemExit("\n".join(failed))
    coloured = "\n".join(typed(screen, results) for screen in (TOPOLOGY, RUN))
    text = plain(coloured)
    (REPOSITORY / "docs" / "session.txt").write_text(text)
    (REPOSITORY / "docs" / "session.svg").write_text(picture(coloured))
    put_into_readme(text)
    print(text, end="")


def main() -> None:
    write(take(TWO_NODES, SCREENS))


if __name__ == "__main__":
    main()
