"""Whatever goes wrong with us, the program starts and its status is ours: for real limits and
refusals, and for mistakes that we have yet to make."""

from __future__ import annotations

import platform
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.launch.conftest import NUMAMIRROR, REPOSITORY, environment, numamirror_run

PROGRAM = ("sh", "-c", "echo ran; exit 3")
REHEARSAL = ("--rehearse", "2", "--report", "summary")
REFUSE = [sys.executable, str(REPOSITORY / "tests/reliability/refuse.py")]
# Machines that are younger than these calls have no fork and vfork.
NO_PROCESSES = ["clone", "clone3", *(["fork", "vfork"] if platform.machine() == "x86_64" else [])]

# `numamirror` where the filter comes when all has been found out.
REFUSED_AT_THE_START = f"""
from numamirror_cli.cli import main
from numamirror_cli.commands import run
from tests.reliability.refuse import refuse
start = run._start
def refused(*arguments):
    refuse(dict.fromkeys({NO_PROCESSES!r}, "EAGAIN"))
    return start(*arguments)
run._start = refused
main()
"""


def under_limit(limit: str) -> list[str]:
    return ["sh", "-c", f'ulimit {limit}; exec "$@"', "sh"]


@pytest.mark.parametrize("descriptors", range(4, 12))
def test_few_descriptors_are_no_reason_not_to_start(descriptors: int) -> None:
    limited = under_limit(f"-n {descriptors}")
    help_command = [*limited, *NUMAMIRROR, "run", "--help"]
    if subprocess.run(help_command, env=environment(), capture_output=True).returncode:
        pytest.skip("Python itself does not start with so few")
    result = numamirror_run(*REHEARSAL, *PROGRAM, before=limited)
    assert (result.returncode, result.stdout) == (3, "ran\n"), result.stderr
    assert "Traceback" not in result.stderr


@pytest.fixture
def no_further_process() -> list[str]:
    """What to put before a command so that neither it nor what it starts can fork."""
    before = [*REFUSE, *(f"{call}=EAGAIN" for call in NO_PROCESSES), "--"]
    if subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this kernel installs no seccomp filter")
    return before


def test_where_no_further_process_may_be_the_program_takes_our_place(
    no_further_process: list[str],
) -> None:
    result = numamirror_run(*REHEARSAL, *PROGRAM, before=no_further_process)
    assert (result.returncode, result.stdout) == (3, "ran\n"), result.stderr
    assert "the program is started without us, nothing is mirrored: " in result.stderr
    assert "Resource temporarily unavailable (see ulimit -u" in result.stderr


def test_a_script_without_a_first_line_takes_our_place_too(
    no_further_process: list[str], script: Callable[..., Path]
) -> None:
    file = script("engine", "echo ran $1; exit 4\n")
    result = numamirror_run(*REHEARSAL, file, "argument", before=no_further_process)
    assert (result.returncode, result.stdout) == (4, "ran argument\n"), result.stderr


def test_a_program_in_our_place_finds_signals_as_we_found_them(
    no_further_process: list[str],
) -> None:
    """Also when it turns out at the very start that there can be no further process."""
    words = ("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
    nohup = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh"]
    alone = subprocess.run([*nohup, *words], capture_output=True, text=True, check=True).stdout
    early = numamirror_run(*REHEARSAL, *words, before=[*nohup, *no_further_process])
    assert early.stdout == alone
    late = subprocess.run(
        [*nohup, sys.executable, "-c", REFUSED_AT_THE_START, "run", *REHEARSAL, *words],
        env=environment(), capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    assert late.stdout == alone
    assert "started without us, nothing is mirrored: " in late.stderr


def test_require_mirror_is_125_where_no_further_process_may_be(
    no_further_process: list[str], shim_env: dict[str, str]
) -> None:
    words = ("--require", "mirror", "--rehearse", "2", *PROGRAM)
    result = numamirror_run(*words, before=no_further_process, env=shim_env)
    assert (result.returncode, result.stdout) == (125, "")


def with_mistake(place: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`numamirror run WORDS` where one of our functions was written wrongly."""
    module, _, name = place.partition(":")
    code = (
        f"import sys, {module} as module\n"
        f"holder = module\n"
        f"for part in {name.split('.')[:-1]!r}: holder = getattr(holder, part)\n"
        f"setattr(holder, {name.split('.')[-1]!r}, lambda *a, **k: {{}}['mistake'])\n"
        f"sys.argv = ['numamirror', 'run', *{words!r}]\n"
        "from numamirror_cli.cli import main; main()\n"
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)


MISTAKE = "a mistake of ours, please report it (KeyError: 'mistake')"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("numamirror_cli.commands.run:prepare", "started without us, nothing is mirrored"),
        ("numamirror_cli.commands.run:plan_lines", "started without us, nothing is mirrored"),
        ("numamirror_cli.launch.session:Session._look", "was not watched to its end"),
        ("numamirror_cli.commands.run:print_report", "the report could not be made"),
    ],
)
def test_a_mistake_of_ours_is_said_and_the_program_runs(place: str, said: str) -> None:
    result = with_mistake(place, "--rehearse", "2", *PROGRAM)
    assert (result.returncode, result.stdout) == (3, "ran\n"), result.stderr
    assert f"{said}: {MISTAKE}" in result.stderr


def test_a_mistake_in_hearing_the_shim_ends_neither_the_program_nor_the_waiting(
    shim_env: dict[str, str],
) -> None:
    place = "numamirror_cli.launch.session:Session._hear"
    result = with_mistake(place, "--rehearse", "2", "sh", "-c", "sleep 0.3; echo ran; exit 3")
    assert (result.returncode, result.stdout) == (3, "ran\n"), result.stderr
    assert MISTAKE in result.stderr


def test_a_mistake_of_ours_under_require_mirror_is_125() -> None:
    words = ("--require", "mirror", "--rehearse", "2", *PROGRAM)
    result = with_mistake("numamirror_cli.commands.run:prepare", *words)
    assert (result.returncode, result.stdout) == (125, "")
    assert f"not started: {MISTAKE}" in result.stderr


def test_ctrl_c_before_the_start_is_the_end_by_that_signal() -> None:
    code = (
        "import os, signal, sys, numamirror_cli.commands.run as run\n"
        "run.prepare = lambda *a, **k: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.argv = ['numamirror', 'run', 'true']\n"
        "from numamirror_cli.cli import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == -signal.SIGINT
    assert done.stderr == ""
