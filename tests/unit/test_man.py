"""The manual pages: current, accepted by mandoc, and with what a reader looks for."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from numamirror_cli.cli import COMMANDS

REPOSITORY = Path(__file__).resolve().parents[2]
MAN = REPOSITORY / "man"
PAGES = ("numamirror", *(f"numamirror-{name}" for name in COMMANDS))


def test_they_say_what_the_help_says() -> None:
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "tools" / "make_man.py"), "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_no_page_is_left_of_a_command_that_went() -> None:
    assert {path.stem for path in MAN.iterdir()} == set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_mandoc_finds_nothing_to_warn_of(page: str) -> None:
    mandoc = shutil.which("mandoc")
    if mandoc is None:
        pytest.skip("mandoc is not installed: apt-get install mandoc")
    lint = [mandoc, "-T", "lint", "-W", "warning", str(MAN / f"{page}.1")]
    done = subprocess.run(lint, capture_output=True, text=True)
    assert done.stdout == ""


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("title", ["SYNOPSIS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"])
def test_every_page_has_what_a_reader_looks_for(page: str, title: str) -> None:
    text = (MAN / f"{page}.1").read_text()
    section = re.search(rf"^\.Sh {title}\n(.+?)(?=^\.Sh |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    assert len(section[1].split()) > 2


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_in_its_page(name: str) -> None:
    command = [sys.executable, "-m", "numamirror_cli", name, "--help"]
    shown = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    options = re.findall(r"^\s+(?:-\w, )?--([\w-]+)", shown.stdout, re.MULTILINE)
    assert "help" in options
    page = (MAN / f"numamirror-{name}.1").read_text()
    assert [each for each in options if f"Fl -{each}" not in page] == []


def test_every_variable_that_is_read_is_in_the_main_page() -> None:
    sources = [*REPOSITORY.glob("numamirror_cli/**/*.py"), *REPOSITORY.glob("native/src/*.c")]
    read = {
        name
        for source in sources
        for name in re.findall(r'"(NUMAMIRROR_[A-Z_]+[A-Z])"', source.read_text())
        if "_TEST_" not in name
    }
    assert len(read) > 8
    page = (MAN / "numamirror.1").read_text()
    documented = set(re.findall(r"^\.It Ev (NUMAMIRROR_\w+)", page, re.MULTILINE))
    assert read - documented == set()
