"""On a narrow screen sentences fold between words, and a number keeps its unit."""

from __future__ import annotations

import io
import shlex

import pytest
from rich.console import Console

from numamirror_cli.report.folded import Folded
from numamirror_cli.report.tables import facts_table
from numamirror_cli.report.text import folded_line
from numamirror_cli.report.verdict import Verdict, render_verdicts

SENTENCE = "2 copies of 235 MiB, coverage 100 %, locality 100 % of 1.2 GiB read after 2.65 s"


def printed(renderable: object, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    console.print(renderable)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", range(13, 90))
def test_no_line_begins_with_a_unit_and_no_word_is_lost(width: int) -> None:
    forms = (
        printed(Folded(SENTENCE), width),
        printed(render_verdicts([Verdict("ok", SENTENCE)]), width),
        printed(facts_table([("", SENTENCE)]), width),
        folded_line(SENTENCE, width).splitlines(),
    )
    for lines in forms:
        assert not any(line.split()[0] in ("%", "%,", "MiB,", "GiB", "s") for line in lines)
        assert max(map(len, lines)) <= width
        assert " ".join(" ".join(lines).split()).removeprefix("ok: ") == SENTENCE


def test_a_folded_message_is_indented_and_a_long_path_stays_whole() -> None:
    path = "/models/" + "x" * 90 + ".gguf"
    assert folded_line(f"numamirror: {path}: cannot be read", 40).splitlines() == [
        "numamirror:",
        f"    {path}:",
        "    cannot be read",
    ]


COMMAND = shlex.join(
    ["numamirror", "run", "--", "llama-server", "-m", "/a b/it's a model.gguf", "-c", "4096"]
)


@pytest.mark.parametrize("width", [36, 40, 60, 100])
def test_a_command_is_the_same_to_a_shell_when_it_is_copied_off_a_narrow_screen(width: int) -> None:
    lines = printed(render_verdicts([Verdict("warn", "spread", COMMAND)]), width)[1:]
    assert max(map(len, lines)) <= width
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(COMMAND)


def test_of_a_command_with_a_word_longer_than_a_line_nothing_is_lost() -> None:
    command = f"numamirror run -- {'x' * 50}"
    lines = printed(render_verdicts([Verdict("warn", "spread", command)]), 30)[1:]
    assert "".join("".join(lines).split()) == command.replace(" ", "")
