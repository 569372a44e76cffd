"""Completion as it works in real shells, with keys typed into a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from numamirror_cli.cli import COMMANDS
from numamirror_cli.commands.completion import SCRIPTS

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT_DIRECTORY = REPOSITORY / "numamirror_cli" / "completions"

# How to start each without its user's files, load the script, and have a prompt of its own.
INTERACTIVE = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        "bind 'set enable-bracketed-paste off'; bind 'set bell-style none'; source {script}",
    ),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit; compinit -D -u; source {script}"),
}
SECONDS = 120.0


def the_shell(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install {name}")
    return found


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With a `numamirror` that runs this source tree."""
    command = tmp_path / "bin" / "numamirror"
    command.parent.mkdir()
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH="{REPOSITORY}" exec "{sys.executable}" -m numamirror_cli "$@"\n'
    )
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(tmp_path), "TERM": "dumb", "PS1": "> ", "LC_ALL": "C.UTF-8"}


class Terminal:
    """A shell in a pseudo-terminal."""

    def __init__(self, shell: str, environment: dict[str, str]) -> None:
        command, load = INTERACTIVE[shell]
        self._master, slave = pty.openpty()
        self.shell = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment, close_fds=True,
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self._seen = ""
        script = SCRIPT_DIRECTORY / SCRIPTS[shell]
        self.type(load.format(script=script) + "; PS1='rea''dy> '\r")
        self.wait_for("ready> ")

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, pattern: str) -> str:
        """Everything seen since the last call. Raises AssertionError showing it."""
        end = time.monotonic() + SECONDS
        while not re.search(pattern, self._seen):
            ready = select.select([self._master], [], [], max(0.0, end - time.monotonic()))[0]
            assert ready, f"no {pattern!r} in {self._seen!r}"
            self._seen += os.read(self._master, 4096).decode(errors="replace")
        seen, self._seen = self._seen, ""
        return seen

    def close(self) -> None:
        self.shell.kill()
        self.shell.wait()
        os.close(self._master)


@pytest.fixture(params=INTERACTIVE)
def terminal(request: pytest.FixtureRequest, environment: dict[str, str]) -> Terminal:
    the_shell(request.param)
    opened = Terminal(request.param, environment)
    request.addfinalizer(opened.close)
    return opened


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_shell_accepts_the_script(shell: str) -> None:
    check = [the_shell(shell), "-n", str(SCRIPT_DIRECTORY / SCRIPTS[shell])]
    done = subprocess.run(check, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_command_prints_the_script(shell: str) -> None:
    command = [sys.executable, "-m", "numamirror_cli", "completion", shell]
    printed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert printed.stdout == (SCRIPT_DIRECTORY / SCRIPTS[shell]).read_text()


def test_a_shell_that_is_not_known_is_bad_usage_and_the_known_ones_are_named() -> None:
    command = [sys.executable, "-m", "numamirror_cli", "completion", "tcsh"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 2
    assert all(shell in done.stderr for shell in SCRIPTS)


def test_a_command_is_completed(terminal: Terminal) -> None:
    terminal.type("numamirror topol\t")
    terminal.wait_for(r"topology ")


def test_an_option_is_completed(terminal: Terminal) -> None:
    terminal.type("numamirror inspect --until\t")
    terminal.wait_for(r"--until-settled ")


def test_the_values_of_an_option_are_offered(terminal: Terminal) -> None:
    terminal.type("numamirror run --per soc\t")
    terminal.wait_for(r"--per socket ")


def test_a_program_to_run_is_completed(terminal: Terminal) -> None:
    terminal.type("numamirror run numami\t")
    terminal.wait_for(r"run numamirror ")


def offered_by_fish(line: str, environment: dict[str, str]) -> list[str]:
    script = SCRIPT_DIRECTORY / SCRIPTS["fish"]
    ask = f"source '{script}'; complete -C '{line}'"
    done = subprocess.run(
        [the_shell("fish"), "--no-config", "-c", ask],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [answer.partition("\t")[0] for answer in done.stdout.splitlines()]


def test_fish_offers_every_command(environment: dict[str, str]) -> None:
    assert set(offered_by_fish("numamirror ", environment)) == set(COMMANDS)


def test_fish_completes_an_option_and_its_values(environment: dict[str, str]) -> None:
    assert "--until-settled" in offered_by_fish("numamirror inspect --un", environment)
    assert set(offered_by_fish("numamirror run --per ", environment)) == {"node", "socket"}


def test_fish_completes_the_program_behind_the_dashes(environment: dict[str, str]) -> None:
    line = "numamirror run --home 1 -- numamirror topol"
    assert "topology" in offered_by_fish(line, environment)
