"""What `run` knows before the start, and that it goes no further than what is certain."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from numamirror_cli.cli import cli
from numamirror_cli.engine.foresight import divides_by_rows, foresee
from numamirror_cli.engine.preload import Preload
from numamirror_cli.engine.target import find_target
from numamirror_cli.errors import NumaMirrorError
from tests.unit.engine.stand_in import SHARED, Build, ik_llama, own_mirror

Compile = Callable[..., Path]
MakeRoot = Callable[..., Path]

REACHES = Preload(("/x/libnumamirror.so",), True)


@pytest.fixture
def build(compile_c: Compile) -> Build:
    return Build(compile_c)


def foreseen(*command: object, thorough: bool = False) -> Preload:
    words = list(map(str, command))
    target = find_target(words, os.environ)
    return foresee(words, target, REACHES, os.environ, thorough=thorough)


def test_an_engine_with_open_seams_keeps_its_preload(build: Build) -> None:
    program = build.program(build.one_library())
    assert foreseen(program) == foreseen(program, thorough=True) == REACHES


def test_an_engine_inside_the_program_is_known_at_once(build: Build) -> None:
    preload = foreseen(build.inside_program("-s"))
    assert not preload.reaches_program
    assert preload.entries == REACHES.entries  # what it starts in turn may be an engine
    assert preload.notice is not None and "inside the program" in preload.notice.why


def test_bound_calls_are_found_by_the_thorough_look(build: Build) -> None:
    program = build.program(build.one_library("-Wl,-Bsymbolic"))
    assert foreseen(program) == REACHES
    preload = foreseen(program, thorough=True)
    assert not preload.reaches_program
    assert preload.notice is not None and "-Bsymbolic" in preload.notice.why


def test_what_is_given_up_is_named_with_its_library_version_and_function(build: Build) -> None:
    program = build.program(build.one_library("-Wl,-Bsymbolic"))
    notice = foreseen(program, thorough=True).notice
    assert notice is not None
    assert notice.what == "libone.so (ggml 9.8.7): policy only"
    assert "calls of ggml_" in notice.why


def test_no_engine_in_sight_is_no_proof(compile_c: Compile) -> None:
    assert foreseen("sh", "-c", "exit", thorough=True) == REACHES
    plain = compile_c("plain", "int main(void) { return 0; }")
    assert foreseen(plain, thorough=True) == REACHES


def test_threads_are_held_to_rows_in_engines_whose_ops_pass_the_shim(build: Build) -> None:
    def divides(program: Path) -> bool:
        return divides_by_rows([str(program)], os.environ)

    assert divides(build.program(build.one_library()))
    ik_llama_cpp = build.one_library(names=ik_llama(), name="libik.so")
    assert not divides(build.program(ik_llama_cpp, name="ik"))
    bound = build.one_library("-Wl,-Bsymbolic", name="libbound.so")
    assert not divides(build.program(bound, name="bound"))
    assert not divides_by_rows(["true"], os.environ)


def test_one_usable_engine_of_two_is_enough(build: Build, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    bound = build.one_library("-Wl,-Bsymbolic", name="other/libbound.so")
    program = build.program(build.one_library())
    assert foreseen(program, bound, thorough=True) == REACHES


def test_an_engine_that_mirrors_by_itself_gets_no_shim(build: Build, compile_c: Compile) -> None:
    program = build.program(compile_c("libown.so", own_mirror(), *SHARED))
    preload = foreseen(program, "--numa", "mirror")
    assert preload.entries == () and preload.obstacle == "the engine mirrors by itself"
    assert foreseen(program, "--numa", "distribute") == REACHES
    assert foreseen(build.program(build.one_library(), name="plain"), "--numa=mirror") == REACHES


def run(*words: object) -> Result:
    result = CliRunner().invoke(cli, ["run", *map(str, words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_require_mirror_refuses_an_engine_that_check_calls_policy_only(
    build: Build, shim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMAMIRROR_SHIM", str(shim))
    program = build.program(build.one_library("-Wl,-Bsymbolic"))
    with pytest.raises(NumaMirrorError) as caught:
        run("--rehearse", "2", "--require", "mirror", "--", program)
    assert caught.value.exit_code == 125
    assert "no way into the engine" in caught.value.message


def test_a_dry_run_says_what_check_says(
    build: Build, shim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMAMIRROR_SHIM", str(shim))
    bound = build.program(build.one_library("-Wl,-Bsymbolic"))
    said = run("--rehearse", "2", "--dry-run", "--", bound).stdout
    assert "Strategy:  none" in said and "-Bsymbolic" in said
    usable = build.program(build.one_library(name="libopen.so"), name="usable")
    assert "Strategy:  mirror" in run("--rehearse", "2", "--dry-run", "--", usable).stdout


def test_auto_shards_where_copies_do_not_fit_but_never_in_ik_llama(
    build: Build, shim: Path, make_root: MakeRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of 200 MiB, and room for half of a copy on node 1."""
    monkeypatch.setenv("NUMAMIRROR_SHIM", str(shim))
    root = make_root(
        {
            0: {"cpus": "0-7", "mem_mib": 1024, "free_mib": 800},
            1: {"cpus": "8-15", "mem_mib": 1024, "free_mib": 160},
        }
    )
    model = tmp_path / "model.gguf"
    with model.open("wb") as file:
        file.truncate(200 << 20)

    def strategy_of(program: Path) -> str:
        said = run("--dry-run", "--root", root, "--", program, "-m", model).stdout
        (line,) = [line for line in said.splitlines() if line.startswith("Strategy:")]
        return line.split()[1]

    assert strategy_of(build.program(build.one_library())) == "shard"
    ik_llama_cpp = build.one_library(names=ik_llama(), name="libik.so")
    assert strategy_of(build.program(ik_llama_cpp, name="ik")) == "mirror"
    assert strategy_of(Path("/bin/true")) == "mirror"
