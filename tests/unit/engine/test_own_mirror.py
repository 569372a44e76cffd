"""An engine that was told to mirror by itself is told where home is, in its own terms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from numamirror_cli.cli import cli
from tests.unit.engine.stand_in import SHARED, Build, own_mirror

VARIABLE = "GGML_NUMA_MIRROR_HOME"
Dry = Callable[..., str]


@pytest.fixture
def planned(compile_c: Callable[..., Path], make_root: Callable[..., Path]) -> Dry:
    """planned(*variables, options=(), arguments=(), environ={}) -> what `run --dry-run` says of an
    engine that reads those variables, on a machine of two nodes, with home on node 1."""
    root = make_root({0: {"cpus": "0-7"}, 1: {"cpus": "8-15"}})

    def run(
        *variables: str,
        options: tuple[str, ...] = (),
        arguments: tuple[str, ...] = ("--numa", "mirror"),
        environ: dict[str, str] | None = None,
    ) -> str:
        library = compile_c("libown.so", own_mirror(*variables), *SHARED)
        engine = Build(compile_c).program(library)
        words = ["run", "--dry-run", "--root", str(root), "--home", "1", *options, "--"]
        done = CliRunner().invoke(cli, [*words, str(engine), *arguments], env=environ)
        assert done.exit_code == 0
        return done.stdout

    return run


def test_home_is_handed_over_in_the_variable_that_the_library_names(planned: Dry) -> None:
    said = planned(VARIABLE)
    assert "Strategy:  prefer (the engine mirrors by itself)" in said
    assert "Policy:    preferred:1" in said
    assert said.endswith(f"Environment:\n  {VARIABLE}=1\n")
    assert "LD_PRELOAD" not in said


def test_an_engine_that_has_no_word_for_home_gets_the_policy(planned: Dry) -> None:
    said = planned()
    assert "Policy:    preferred:1" in said
    assert "home node 1 is handed to the engine by the memory policy alone" in said
    assert "Environment:" not in said


def test_of_two_words_none_is_guessed(planned: Dry) -> None:
    said = planned(VARIABLE, "GGML_NUMA_HOME_NODE")
    assert "by the memory policy alone" in said and "Environment:" not in said


def test_a_home_that_the_user_gave_the_engine_is_kept(planned: Dry) -> None:
    said = planned(VARIABLE, environ={VARIABLE: "0"})
    assert f"{VARIABLE}=0 of your environment is kept" in said
    assert "Environment:" not in said


@pytest.mark.parametrize("strategy", ["none", "bind"])
def test_nothing_is_handed_over_where_the_user_wants_no_home(planned: Dry, strategy: str) -> None:
    assert VARIABLE not in planned(VARIABLE, options=("--strategy", strategy))


def test_the_same_engine_without_the_argument_is_mirrored_by_the_shim(
    planned: Dry, shim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMAMIRROR_SHIM", str(shim))
    said = planned(VARIABLE, options=("--strategy", "mirror"), arguments=("--numa", "distribute"))
    assert "Strategy:  mirror" in said and VARIABLE not in said
