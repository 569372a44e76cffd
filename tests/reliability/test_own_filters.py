"""Engines that put themselves under a seccomp filter: none is killed because of us."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from . import runs

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the filters list system calls of x86_64"
)


@pytest.fixture
def filtered(libllama: Path, model: Path, tmp_path: Path) -> Any:
    """filtered(WHEN, OPTION...) -> the engine's run without us, and with us and those options."""

    def run_both(
        when: str, *options: str, launcher: Sequence[str] = runs.NUMAMIRROR
    ) -> tuple[runs.Run, runs.Run]:
        words = ("--engine-dir", libllama, "--model", model)
        plain = runs.program("own_filter.py", when, *words)
        mirrored = runs.run_mirrored(
            tmp_path, (*plain, *options), *runs.REHEARSED, launcher=launcher
        )
        return runs.run(plain), mirrored

    return run_both


def test_an_engine_that_filters_itself_before_it_loads_is_left_alone(
    filtered: Any, tmp_path: Path
) -> None:
    looked = str(tmp_path / "looked")
    launcher = (sys.executable, str(runs.HERE / "looked.py"), looked)
    plain, run = filtered("before-load", "--until", looked, launcher=launcher)
    assert run.line == plain.line
    [sentence] = run.verdict
    assert sentence.startswith("NOT mirrored: no handshake from the shim: the program filters its")


def test_an_engine_that_filters_itself_before_its_first_graph_is_left_alone(filtered: Any) -> None:
    plain, run = filtered("before-first-graph")
    assert run.line == plain.line
    assert run.verdict[0] == "NOT mirrored: the program filters its own system calls (seccomp)"
    assert run.coverage == 0.0


def test_an_engine_that_filters_itself_after_its_warm_up_stays_mirrored(filtered: Any) -> None:
    plain, run = filtered("after-warm-up")
    assert run.line == plain.line
    assert run.verdict[0].startswith("mirrored: 2 copies")
    assert run.coverage == 1.0
