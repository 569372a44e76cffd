"""Tables on narrow screens: numbers and short words stay whole, whatever has to give."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from numamirror_cli.report.folded import Folded
from numamirror_cli.report.tables import plain_table

ROWS = (
    ("0 (pretend)", "primary", "235 MiB", "512 of 512 pages", "618 MiB"),
    ("1", "replica", "1.2 GiB", "509 of 512 pages", "0 B"),
)


def shown(width: int) -> list[str]:
    numbers = ("Bytes", "Sampled in place", "Read elsewhere")
    table = plain_table("Node", "Role", *numbers, right=numbers)
    for row in ROWS:
        table.add_row(*row)
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_what_fits_is_on_one_line_for_each_row() -> None:
    assert shown(80) == [
        "Node         Role       Bytes  Sampled in place  Read elsewhere",
        "0 (pretend)  primary  235 MiB  512 of 512 pages         618 MiB",
        "1            replica  1.2 GiB  509 of 512 pages             0 B",
    ]


def test_headings_give_way_first() -> None:
    lines = shown(59)
    assert lines[-1] == "1            replica  1.2 GiB  509 of 512 pages         0 B"
    assert lines[-2] == "0 (pretend)  primary  235 MiB  512 of 512 pages     618 MiB"
    assert len(lines) == 4


def test_before_a_number_is_torn_each_row_becomes_lines() -> None:
    assert shown(36)[:7] == [
        "Node              0 (pretend)",
        "Role              primary",
        "Bytes             235 MiB",
        "Sampled in place  512 of 512 pages",
        "Read elsewhere    618 MiB",
        "",
        "Node              1",
    ]


@pytest.mark.parametrize("width", range(34, 90))
def test_at_no_width_is_a_number_torn_or_a_line_too_long(width: int) -> None:
    lines = shown(width)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= width
    for row in ROWS:
        for cell in row[1:]:
            assert cell in text


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_column_of_sentences_takes_what_the_others_leave(width: int) -> None:
    sentence = "weights of a model whose name is long (100 % faulted in, in 4 KiB pages)"
    table = plain_table("In memory", "What", right=("In memory",))
    table.add_row("235 MiB", Folded(sentence))
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as capture:
        console.print(table)
    lines = capture.get().splitlines()
    assert " ".join(" ".join(lines[1:]).split()) == f"235 MiB {sentence}"
    assert all(len(line) <= width for line in lines)
