"""The exit status of `run`: the program's own, and what stands for each way to fail."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.launch.conftest import environment, numamirror_run

Script = Callable[..., Path]


@pytest.mark.parametrize("code", [0, 1, 2, 77, 125, 255])
def test_the_exit_code_is_the_programs_own(code: int) -> None:
    assert numamirror_run("sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGSEGV", "SIGINT", "SIGPIPE"])
def test_a_program_that_a_signal_ended_gives_128_and_its_number(name: str) -> None:
    number = signal.Signals[name]
    assert numamirror_run("sh", "-c", f"kill -{number.value} $$").returncode == 128 + number


def test_an_unknown_program_is_127(tmp_path: Path) -> None:
    by_name = numamirror_run("no-such-engine")
    by_path = numamirror_run(tmp_path / "no-such-engine")
    assert (by_name.returncode, by_path.returncode) == (127, 127)
    assert "no-such-engine: program not found" in by_name.stderr


def test_a_program_that_is_not_executable_is_126(script: Script) -> None:
    result = numamirror_run(script("engine", "#!/bin/sh\n", mode=0o644))
    assert result.returncode == 126
    assert "engine: not executable" in result.stderr


def test_a_script_with_a_missing_interpreter_is_127_and_says_so(script: Script) -> None:
    result = numamirror_run(script("engine", "#!/no/such/shell\n"))
    assert result.returncode == 127
    assert "engine: its interpreter or loader does not exist" in result.stderr


def test_a_script_without_a_first_line_is_run_by_sh(script: Script) -> None:
    result = numamirror_run(script("engine", 'echo "$0 $1"; exit 5\n'), "argument")
    assert result.returncode == 5
    assert result.stdout.endswith("/engine argument\n")


def test_a_file_that_is_no_program_is_handed_to_sh_as_env_does(script: Script) -> None:
    assert numamirror_run(script("engine", "\x7fnot a program\n")).returncode in (2, 126, 127)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--min-size", "1x"),
        ("--min-size", "9999999T"),
        ("--nodes", "a-b"),
        ("--budget", "0"),
        ("--budget", "101%"),
        ("--budget", "half"),
        ("--adapt", "0"),
        ("--adapt", "soon"),
        ("--nodes", ""),
        ("--home", "-1"),
        ("--rehearse", "1"),
        ("--rehearse", "two"),
        ("--per", "core"),
        ("--report", "loud"),
        ("--no-such-option",),
        ("--root", "/"),
    ],
)
def test_bad_usage_is_2_names_the_input_and_starts_nothing(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    witness = tmp_path / "started"
    result = numamirror_run(*arguments, "touch", witness)
    assert result.returncode == 2
    assert arguments[-1] in result.stderr
    assert not witness.exists()


def test_no_program_is_bad_usage() -> None:
    assert numamirror_run("--copy-home").returncode == 2


@pytest.mark.parametrize("option", ["--home", "--nodes"])
def test_an_unknown_node_is_2_names_the_nodes_there_are_and_starts_nothing(
    option: str, tmp_path: Path
) -> None:
    if not Path("/sys/devices/system/node/node0").exists():
        pytest.skip("this kernel exposes no NUMA nodes")
    witness = tmp_path / "started"
    result = numamirror_run(option, "1023", "touch", witness)
    assert result.returncode == 2
    assert "there is no node 1023: this machine has node" in result.stderr
    assert not witness.exists()


def test_a_home_variable_that_is_no_node_is_2_and_starts_nothing(tmp_path: Path) -> None:
    witness = tmp_path / "started"
    result = numamirror_run("touch", witness, env=environment(NUMAMIRROR_HOME="east"))
    assert result.returncode == 2
    assert "NUMAMIRROR_HOME=east" in result.stderr
    assert not witness.exists()


def test_require_mirror_is_125_and_starts_nothing_where_there_can_be_none(tmp_path: Path) -> None:
    witness = tmp_path / "started"
    env = environment(NUMAMIRROR_SHIM="/no/such/shim.so")
    result = numamirror_run("--require", "mirror", "--rehearse", "2", "touch", witness, env=env)
    assert result.returncode == 125
    assert "--require mirror: not started" in result.stderr
    assert "/no/such/shim.so" in result.stderr
    assert not witness.exists()


def test_require_mirror_is_125_when_nothing_was_mirrored_after_all(
    shim_env: dict[str, str],
) -> None:
    options = ("--require", "mirror", "--rehearse", "2")
    result = numamirror_run(*options, "sh", "-c", "echo ran", env=shim_env)
    assert (result.returncode, result.stdout) == (125, "ran\n")
    assert "nothing was mirrored in this run" in result.stderr


def test_require_mirror_keeps_the_status_of_a_program_that_failed(
    shim_env: dict[str, str],
) -> None:
    options = ("--require", "mirror", "--rehearse", "2")
    assert numamirror_run(*options, "sh", "-c", "exit 9", env=shim_env).returncode == 9
