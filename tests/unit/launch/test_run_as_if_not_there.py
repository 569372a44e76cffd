"""What the program sees of us: nothing. Streams, signals' defaults, descriptors, arguments."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.launch.conftest import NUMAMIRROR, environment, numamirror_run

PythonScript = Callable[[str], Path]


def test_stdin_and_stdout_are_the_programs_alone() -> None:
    data = "line\n\x00\x1b[0m no newline at the end"
    result = numamirror_run("cat", input=data, stdin=None)
    assert result.stdout == data
    assert "numamirror: " in result.stderr


def test_nothing_of_ours_is_on_stdout_in_any_report() -> None:
    for report in ("full", "summary", "none"):
        assert numamirror_run("--report", report, "-v", "true").stdout == ""


def test_stderr_of_the_program_comes_through() -> None:
    assert "from the program\n" in numamirror_run("sh", "-c", "echo from the program >&2").stderr


def test_a_double_dash_is_optional_and_options_end_at_the_program() -> None:
    script = 'printf "%s|" "$@"'
    given = ("--report", "-v", "--home", "9", "--", "--dry-run")
    expected = "--report|-v|--home|9|--|--dry-run|"
    assert numamirror_run("sh", "-c", script, "sh", *given).stdout == expected
    assert numamirror_run("--", "sh", "-c", script, "sh", *given).stdout == expected


def test_the_programs_name_is_what_was_typed() -> None:
    assert numamirror_run("sh", "-c", "echo $0").stdout == "sh\n"


def test_a_broken_pipe_ends_the_program_as_it_would_alone() -> None:
    pipeline = f'({" ".join(NUMAMIRROR)} run yes; echo "status $?" >&2) | head -n 1'
    result = subprocess.run(
        ["sh", "-c", pipeline],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert result.stdout == "y\n"
    assert f"status {128 + signal.SIGPIPE}" in result.stderr


def test_signals_have_their_defaults_and_none_is_blocked() -> None:
    command = ("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
    alone = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # glibc's posix_spawn(3) leaves its two internal signals, 32 and 33, ignored: whoever uses
    # them sets them up, and no program can see them through glibc.
    assert _masks(numamirror_run(*command).stdout, but=3 << 31) == _masks(alone, but=3 << 31)


def _masks(status: str, but: int) -> dict[str, int]:
    lines = (line.split() for line in status.splitlines())
    return {name: int(mask, 16) & ~but for name, mask in lines}


@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP", "SIGTERM", "SIGUSR1"])
def test_a_signal_that_we_found_ignored_stays_ignored(name: str) -> None:
    number = signal.Signals[name].value
    trap = f'trap "" {number}; exec "$@"'
    shown = numamirror_run(
        "sh", "-c", "grep SigIgn /proc/$$/status", before=["sh", "-c", trap, "sh"]
    ).stdout
    assert int(shown.split()[1], 16) >> (number - 1) & 1


def test_only_the_standard_descriptors_are_open(python_script: PythonScript) -> None:
    program = python_script("print(sorted(map(int, os.listdir('/proc/self/fd'))))\n")
    listed = json.loads(numamirror_run(program).stdout)
    # The listing itself opens the next free one.
    assert listed == [0, 1, 2, 3]


def test_a_descriptor_that_the_caller_passes_on_arrives() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"handed over")
    os.close(writing)
    result = numamirror_run("sh", "-c", f"cat /dev/fd/{reading}", pass_fds=[reading])
    os.close(reading)
    assert result.stdout == "handed over"


def test_group_session_and_terminal_are_shared(python_script: PythonScript) -> None:
    program = python_script("print(os.getpgid(0) == os.getpgid(os.getppid()), "
                            "os.getsid(0) == os.getsid(os.getppid()))\n")  # fmt: skip
    assert numamirror_run(program).stdout == "True True\n"


def test_the_environment_is_the_callers_where_nothing_is_mirrored() -> None:
    env = environment(LD_LIBRARY_PATH="/x:/y", LD_PRELOAD=None, ODD="a b\nc")
    env["NUMAMIRROR_SHIM"] = "/no/such/shim.so"
    result = numamirror_run(sys.executable, "-c", "import os; print(dict(os.environ))", env=env)
    assert eval(result.stdout) == env | _added_by_python(env)


def _added_by_python(env: dict[str, str]) -> dict[str, str]:
    """What Python's own start adds to the environment that it is given (LC_CTYPE)."""
    code = "import os; print(dict(os.environ))"
    result = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    seen: dict[str, str] = eval(result.stdout)
    return {name: value for name, value in seen.items() if name not in env}


def test_stderr_may_be_closed() -> None:
    result = numamirror_run("echo", "ran", before=["sh", "-c", 'exec "$@" 2>&-', "sh"])
    assert (result.returncode, result.stdout) == (0, "ran\n")


def test_an_error_never_goes_to_stdout_instead() -> None:
    result = numamirror_run("no-such-engine", before=["sh", "-c", 'exec "$@" 2>&-', "sh"])
    assert (result.returncode, result.stdout) == (127, "")


def test_stderr_may_be_full_or_gone() -> None:
    for target in ("/dev/full", "/dev/null"):
        result = numamirror_run("echo", "ran", before=["sh", "-c", f'exec "$@" 2>{target}', "sh"])
        assert (result.returncode, result.stdout) == (0, "ran\n")


@pytest.mark.parametrize("report", ["full", "summary"])
def test_the_reader_of_stderr_may_have_left(report: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = numamirror_run(
        *("--report", report, "sh", "-c", "echo ran; exit 4"),
        capture_output=False,
        stdout=subprocess.PIPE,
        stderr=writing,
    )
    os.close(writing)
    assert (result.returncode, result.stdout) == (4, "ran\n")


def test_stdin_may_be_closed() -> None:
    result = numamirror_run("echo", "ran", before=["sh", "-c", 'exec "$@" <&-', "sh"])
    assert (result.returncode, result.stdout) == (0, "ran\n")


def test_what_is_slow_to_import_is_not_imported_before_the_start() -> None:
    code = (
        "import sys, numamirror_cli.commands.run\n"
        "print([name for name in ('rich', 'numpy', 'pyudev', 'psutil', 'elftools') "
        "if name in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert shown.stdout == "[]\n"
