"""What a command line really runs: the chain from the name to the image."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamirror_cli.commands import observe, run
from numamirror_cli.engine.elf import read_elf
from numamirror_cli.engine.target import find_target
from numamirror_cli.engine.wrappers import (
    OURSELVES,
    behind_all,
    behind_env,
    behind_loader,
    behind_shell,
)

Script = Callable[..., Path]
Compile = Callable[..., Path]

PROGRAM = "int main(void) { return 0; }"


def names(paths: tuple[Path, ...]) -> list[str]:
    return [path.name for path in paths]


def test_a_script_is_followed_to_its_interpreter(script: Script) -> None:
    start = script("start", f"#!{sys.executable} -u\n")
    target = find_target([str(start)], os.environ)
    assert names(target.chain) == ["start", Path(sys.executable).name]
    assert target.elf is not None


def test_a_script_of_scripts_is_followed_to_the_end(script: Script) -> None:
    inner = script("inner", "#!/bin/sh\n")
    outer = script("outer", f"#!{inner}\n")
    assert names(find_target([str(outer)], os.environ).chain) == ["outer", "inner", "sh"]


def test_env_in_a_script_is_followed_along_path(script: Script, tmp_path: Path) -> None:
    start = script("start", "#!/usr/bin/env -S engine --verbose\n")
    script("engine", "#!/bin/sh\n")
    target = find_target([str(start)], {"PATH": str(tmp_path)})
    assert names(target.chain) == ["start", "env", "engine", "sh"]
    assert target.drops_preload == ""


def test_a_script_without_a_first_line_goes_through_sh(script: Script) -> None:
    assert names(find_target([str(script("start", "exit 3\n"))], os.environ).chain) == [
        "start",
        "sh",
    ]


def test_a_script_that_names_itself_ends_the_search_not_the_start(
    script: Script, tmp_path: Path
) -> None:
    loop = script("loop", f"#!{tmp_path}/loop\n")
    target = find_target([str(loop)], os.environ)
    assert "too many interpreters" in target.unread


def test_a_missing_interpreter_is_named(script: Script) -> None:
    target = find_target([str(script("start", "#!/no/such/shell\n"))], os.environ)
    assert "/no/such/shell" in target.unread
    assert target.elf is None


def test_a_bundled_loader_is_followed_to_the_engine(compile_c: Compile) -> None:
    engine = compile_c("engine", PROGRAM)
    system_loader = find_target([str(engine)], os.environ).elf
    assert system_loader is not None and system_loader.loader is not None
    loader = engine.parent / "ld.so"
    loader.write_bytes(Path(system_loader.loader).read_bytes())
    loader.chmod(0o755)
    command = [str(loader), "--library-path", "/x", "--inhibit-cache", str(engine), "-m", "model"]
    target = find_target(command, os.environ)
    assert target.image == engine
    assert target.loader == (str(loader), "--library-path", "/x", "--inhibit-cache")
    assert names(target.executed) == ["ld.so"]


@pytest.mark.parametrize(
    ("arguments", "command", "dropped"),
    [
        (["A=1", "engine", "-i"], ("engine", "-i"), ""),
        (["-i", "PATH=/bin", "engine"], ("engine",), "env -i"),
        (["-", "engine"], ("engine",), "env -"),
        (["-u", "LD_PRELOAD", "engine"], ("engine",), "env -u LD_PRELOAD"),
        (["-u", "HOME", "engine"], ("engine",), ""),
        (["--unset=LD_PRELOAD", "engine"], ("engine",), "env --unset=LD_PRELOAD"),
        (["LD_PRELOAD=/x.so", "engine"], ("engine",), "env LD_PRELOAD=/x.so"),
        (["-C", "/tmp", "engine"], ("engine",), ""),
        (["-S", "engine -x 'a b'", "c"], ("engine", "-x", "a b", "c"), ""),
        (["-Sengine -x", "c"], ("engine", "-x", "c"), ""),
        (["-S", "unbalanced '"], (), ""),
        ([], (), ""),
    ],
)
def test_what_env_starts(arguments: list[str], command: tuple[str, ...], dropped: str) -> None:
    wrapped = behind_env(arguments)
    assert (wrapped.command, wrapped.drops_preload) == (command, dropped)


def test_a_loader_without_a_program_starts_nothing() -> None:
    assert behind_loader(["--library-path", "/x"]).command == ()
    assert behind_loader(["--library-path"]).command == ()


@given(st.lists(st.text(max_size=12), max_size=8))
def test_no_command_line_breaks_the_following_of_wrappers(arguments: list[str]) -> None:
    for command in (
        behind_env(arguments).command,
        behind_loader(arguments).command,
        behind_shell("sh", arguments).command,
        behind_all(["numamirror", "run", "sh", *arguments]).command,
    ):
        assert len(command) <= len(arguments) + 1 + sum(len(word) for word in arguments)


@given(st.data())
def test_a_scrambled_program_is_no_elf_file_or_one_with_other_facts(data: st.DataObject) -> None:
    image = bytearray(Path("/bin/sh").read_bytes())
    for _ in range(data.draw(st.integers(0, 30))):
        image[data.draw(st.integers(4, 4000))] = data.draw(st.integers(0, 255))
    length = data.draw(st.sampled_from([5, 64, 900, 4000, len(image)]))
    with tempfile.NamedTemporaryFile() as file:
        file.write(image[:length])
        file.flush()
        elf = read_elf(Path(file.name))
    assert elf is None or elf.bits in (32, 64)


def test_what_env_sets_is_known_of_the_program_that_it_starts() -> None:
    wrapped = behind_env(["-i", "PYTHONPATH=/a:/b", "X=", "python3", "PATH=not-ours"])
    assert wrapped.variables == {"PYTHONPATH": "/a:/b", "X": ""}
    assert wrapped.command == ("python3", "PATH=not-ours")


@pytest.mark.parametrize(
    "string",
    [
        "engine -m model.gguf -c 4096",
        "exec engine --port 80",
        "  engine 'two words' \"and 'quotes'\" a\\ b --x=\\\"y\\\" -p ''",
        '"/opt/an engine/bin" -m "m\\x"',
    ],
)
def test_a_string_of_one_command_is_what_a_shell_makes_of_it(string: str) -> None:
    by_shell = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {string}"], capture_output=True, text=True, check=True
    )
    words = by_shell.stdout.splitlines()
    assert list(behind_shell("sh", ["-c", string]).command) == words[words[0] == "exec" :]


@pytest.mark.parametrize(
    "string",
    [
        "cd /models && engine", "engine | tee log", "engine; true", "engine &", "$ENGINE -m x",
        "engine -m *.gguf", "engine -m ~/m.gguf", "(engine)", "engine > log", "`which engine`",
        "A=1 engine", "time engine", "eval engine", "exec -a other engine", ". ./engine",
        "engine # -m x", "engine\ntrue", "engine 'open", "! engine", "", "exec",
    ],
)  # fmt: skip
def test_a_string_that_takes_a_shell_is_not_guessed_at(string: str) -> None:
    wrapped = behind_shell("sh", ["-c", string])
    assert (wrapped.command, wrapped.unread) == (
        (),
        "the string that sh runs (-c) was not looked into",
    )


@pytest.mark.parametrize(
    ("arguments", "followed"),
    [
        (["-c", "engine -x"], True),
        (["-ec", "engine -x"], True),
        (["-c", "-e", "engine -x"], True),
        (["-euo", "pipefail", "-c", "engine -x", "name", "operand"], True),
        (["-lc", "engine -x"], False),
        (["-l", "-c", "engine -x"], False),
        (["-o", "noexec", "-c", "engine -x"], False),
        (["+e", "-c", "engine -x"], False),
    ],
)
def test_options_that_change_what_a_string_means_end_the_following(
    arguments: list[str], followed: bool
) -> None:
    wrapped = behind_shell("bash", arguments)
    assert (wrapped.command, bool(wrapped.unread)) == (
        (("engine", "-x"), False) if followed else ((), True)
    )


@pytest.mark.parametrize(
    "arguments", [[], ["-c"], ["start", "-c", "x"], ["-e", "start"], ["-o", "noclobber", "start"]]
)
def test_the_script_of_a_shell_is_no_string(arguments: list[str]) -> None:
    wrapped = behind_shell("sh", arguments)
    assert (wrapped.command, wrapped.unread) == ((), "")


def test_options_of_ours_that_take_a_value_are_all_known_to_the_following() -> None:
    for command in (run.command, observe.command):
        options = [p for p in command.params if p.param_type_name == "option"]
        valued = {name for p in options if not getattr(p, "is_flag", False) for name in p.opts}
        assert set(OURSELVES[str(command.name)].split()) == valued


def test_a_command_that_starts_numamirror_is_followed_through_it(
    script: Script, compile_c: Compile
) -> None:
    engine = compile_c("engine", PROGRAM)
    start = script("numamirror", f"#!{sys.executable}\n")
    for words in (["run", "--home", "1", "-v", "--"], ["observe", "--json", "x"], ["run"]):
        target = find_target([str(start), *words, str(engine), "-m", "model"], os.environ)
        assert names(target.chain) == ["numamirror", "engine"]
        assert target.arguments == ("-m", "model")
    inspect = find_target([str(start), "inspect", str(engine)], os.environ)
    assert names(inspect.chain) == ["numamirror", Path(sys.executable).name]


def test_wrappers_are_known_by_their_names_where_there_is_no_such_file() -> None:
    line = ["/no/sudo", "-u", "me", "numamirror", "run", "sh", "-c", "exec engine -m 'a b'"]
    assert behind_all(line).command == ("engine", "-m", "a b")
    assert behind_all(["engine", "-c", "4096"]).command == ("engine", "-c", "4096")
    assert behind_all(["nice", "sh", "-c", "engine | tee"]).command == ()
