"""What a command line really runs: the chain from the name to the image."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamirror_cli.engine.elf import read_elf
from numamirror_cli.engine.target import find_target
from numamirror_cli.engine.wrappers import behind_env, behind_loader

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
    for behind in (behind_env, behind_loader):
        command = behind(arguments).command
        assert len(command) <= len(arguments) + sum(len(word) for word in arguments)


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
