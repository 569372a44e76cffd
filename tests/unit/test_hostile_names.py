"""Names of files, processes and arguments are anybody's: a message stays one line, whatever is in
them, and nothing of them steers the terminal. JSON has them as they are."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.console import Console, RenderableType

from numamirror_cli.machine.read import read_machine
from numamirror_cli.quoting import printable, shell_line, shell_word
from numamirror_cli.report import svg
from numamirror_cli.report.drawing import draw_topology
from numamirror_cli.report.tables import facts_table, plain_table
from numamirror_cli.report.verdict import Verdict, render_verdicts
from tests.unit.launch.listener import eventually

REPOSITORY = Path(__file__).resolve().parents[2]
# A name that ends the line, clears the screen, goes back and turns the direction of writing.
HOSTILE = "a\nFORGED\x1b[2J\r\u202eb"
SHOWN = r"a\nFORGED\x1b[2J\r\u202eb"
BLANK = svg.Block(10, 10, ())


class Done(NamedTuple):
    status: int
    stdout: str
    stderr: str


def numamirror(*words: str) -> Done:
    done = subprocess.run(
        [sys.executable, "-m", "numamirror_cli", *words],
        cwd=REPOSITORY,
        # Wide enough that no line is folded: a line of its own would be the name's doing.
        env={**os.environ, "COLUMNS": "500"},
        capture_output=True,
        timeout=300,
    )
    # Not as text, where a carriage return is a line's end.
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def is_harmless(text: str) -> bool:
    lines = text.split("\n")
    return all(line.isprintable() and not line.lstrip().startswith("FORGED") for line in lines)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A script of that name."""
    file = tmp_path / HOSTILE
    file.write_text("#!/bin/sh\nread -r line\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    "words",
    [
        ("cache", "FILE"),
        ("check", "FILE"),
        ("check", "FILE", HOSTILE),
        ("doctor", "--", "FILE", "-m", "FILE"),
        ("plan", "FILE"),
        ("plan", "--measured", HOSTILE, "FILE"),
        ("plan", "--bandwidth", HOSTILE, "FILE"),
        ("plan", "--bench", HOSTILE, "FILE"),
        ("cache", "--warm", HOSTILE, "FILE"),
        ("run", "--dry-run", "--", "FILE", HOSTILE),
        ("run", "--dry-run", "--root", "FILE", "--", "true"),
        ("run", "--", HOSTILE),
        ("run", f"--{HOSTILE}", "--", "true"),
        ("run", "--strategy", HOSTILE, "--", "true"),
        ("run", "--min-size", HOSTILE, "--", "true"),
        ("inspect", HOSTILE),
        ("inspect", "--root", HOSTILE, "1"),
        ("topology", "--root", "FILE"),
        ("topology", "--svg", "FILE"),
        ("topology", "--svg", f"/{HOSTILE}/picture.svg"),
        ("topology", "--gather", "FILE"),
        ("bench", "--last", HOSTILE),
        ("completion", HOSTILE),
        (HOSTILE,),
    ],
    ids=lambda words: " ".join(words).replace(HOSTILE, "HOSTILE"),
)
def test_a_hostile_name_stays_in_its_line_and_is_shown_escaped(
    words: tuple[str, ...], program: Path
) -> None:
    done = numamirror(*(str(program) if word == "FILE" else word for word in words))
    assert is_harmless(done.stdout), done.stdout
    assert is_harmless(done.stderr), done.stderr
    assert "FORGED" in done.stdout + done.stderr


@contextmanager
def running(program: Path) -> Iterator[int]:
    """The pid of that program with a hostile argument, once it is under its own name."""
    with subprocess.Popen(
        [program, HOSTILE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            words = Path(f"/proc/{process.pid}/cmdline")
            eventually(lambda: HOSTILE.encode() in words.read_bytes(), "its arguments to be there")
            yield process.pid
        finally:
            assert process.stdin is not None
            process.stdin.close()


def test_a_process_with_a_hostile_name_is_shown_escaped_and_given_as_it_is(program: Path) -> None:
    with running(program) as pid:
        shown = numamirror("inspect", "--no-follow", str(pid))
        if "no NUMA" in shown.stderr:
            pytest.skip("this kernel has no NUMA")
        document = json.loads(numamirror("inspect", "--no-follow", "--json", str(pid)).stdout)
    assert is_harmless(shown.stdout) and "FORGED" in shown.stdout
    assert HOSTILE in document["arguments"]


def test_a_program_of_a_hostile_name_is_given_to_json_as_it_is(program: Path) -> None:
    document = json.loads(numamirror("check", "--json", str(program)).stdout)
    assert document["program"] == str(program)


def test_what_is_not_printable_is_shown_as_python_writes_it() -> None:
    assert printable(HOSTILE) == SHOWN
    assert printable("模型 of 32 GB, é") == "模型 of 32 GB, é"


WORDS = (
    HOSTILE,
    "plain",
    "two words",
    "it's",
    'a "b"',
    "\t'\\\n",
    "é\x80",
    "\udcff\n",
    "$HOME\n",
    "",
)


def test_a_command_line_that_is_shown_means_the_same_to_a_shell() -> None:
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("needs bash: apt-get install bash")
    line = shell_line(WORDS)
    assert line.isprintable()
    script = ["-c", f"printf '%s\\0' {line}"]
    told = subprocess.run([shell, *script], capture_output=True, check=True).stdout
    assert told.decode(errors="surrogateescape").split("\0")[:-1] == list(WORDS)


def test_a_printable_word_is_quoted_as_ever() -> None:
    assert shell_word("a b") == "'a b'"


def printed(report: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=500)
    with console.capture() as capture:
        console.print(report)
    return capture.get()


def test_every_form_of_our_reports_keeps_a_hostile_name_in_its_line() -> None:
    table = plain_table("Weights", "Size")
    table.add_row(HOSTILE, "1 MiB")
    verdict = Verdict("warn", f"{HOSTILE} is spread", f"numamirror run -- {HOSTILE}")
    for report in (table, facts_table([("Engine", HOSTILE)]), render_verdicts([verdict])):
        shown = printed(report)
        assert is_harmless(shown) and SHOWN in shown
    assert SHOWN in svg.text(0, 0, HOSTILE, 13) and SHOWN in svg.document(HOSTILE, BLANK)


def test_the_name_of_a_hostile_device_stays_in_its_box(make_root: Callable[..., Path]) -> None:
    gpu = {"address": "0000:81:00.0", "pci_class": "0x030000", "vendor": "0x10de"}
    root = make_root({0: {"cpus": "0-1"}}, pci=[{**gpu, "device": "0x2204", "numa_node": "0"}])
    machine = read_machine(root)
    gpus = tuple(replace(gpu, name=HOSTILE) for gpu in machine.gpus)
    drawing = draw_topology(replace(machine, gpus=gpus), 80)
    assert is_harmless(drawing) and "FORGED" in drawing
