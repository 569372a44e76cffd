"""A report that has nowhere to go is said with its remedy, whatever the command."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit.launch.conftest import NUMAMIRROR, environment

REPORTS = [
    "topology", "topology --json", "topology --draw", "doctor", "doctor --json", "check true",
    "check --json true", "run --dry-run true", "--version", "run --help", "completion bash",
]  # fmt: skip


def to(target: str, words: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
    """`numamirror WORDS` with its stdout redirected as a shell does."""
    script = f"{' '.join(NUMAMIRROR)} {words} {target}"
    env = environment(**changes)
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", script],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )


def said_of(problem: str) -> str:
    """What, why, and the remedy."""
    return (
        f"numamirror: the report cannot be written: {problem}\n"
        "numamirror: give it a file that can be written: numamirror ... > FILE\n"
    )


@pytest.mark.parametrize("unbuffered", [None, "1"])
@pytest.mark.parametrize("words", REPORTS)
def test_a_full_disk_is_said(words: str, unbuffered: str | None) -> None:
    done = to(">/dev/full", words, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 1
    assert done.stderr == said_of("No space left on device")


@pytest.mark.parametrize("unbuffered", [None, "1"])
@pytest.mark.parametrize("words", REPORTS)
def test_a_reader_that_has_left_is_no_matter(words: str, unbuffered: str | None) -> None:
    done = to("| true", words, PYTHONUNBUFFERED=unbuffered)
    assert done.stderr == ""


@pytest.mark.parametrize("unbuffered", [None, "1"])
@pytest.mark.parametrize("words", REPORTS)
def test_a_closed_stdout_is_said(words: str, unbuffered: str | None) -> None:
    done = to(">&-", words, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 1
    assert done.stderr == said_of("standard output is closed")


def test_a_closed_stdout_is_no_matter_where_nothing_is_written_to_it(tmp_path: Path) -> None:
    done = to(">&-", f"topology --svg {tmp_path / 'machine.svg'}")
    assert (done.returncode, done.stderr) == (0, f"wrote {tmp_path / 'machine.svg'}\n")


def test_what_others_wrote_into_a_name_steers_no_terminal() -> None:
    done = to("", r"inspect $'\e[2Jnone'")
    assert done.returncode == 1
    assert "\x1b" not in done.stderr and r"\x1b[2Jnone" in done.stderr


def test_a_picture_may_go_to_stdout() -> None:
    done = to("| cat", "topology --svg /dev/stdout")
    assert done.stdout.startswith("<svg") and done.stdout.rstrip().endswith("</svg>")
    assert done.stderr == "wrote /dev/stdout\n"


@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "words", ["inspect 1 --watch --interval", "inspect 1 --until-settled --quiet-for",
              "bench --seconds"],
)  # fmt: skip
def test_a_time_that_never_ends_is_bad_usage(words: str, seconds: str) -> None:
    done = to("", f"{words} {seconds}")
    assert done.returncode == 2
    assert seconds in done.stderr and "Traceback" not in done.stderr
