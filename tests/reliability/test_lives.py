"""What happens in the life of a process: models come and go, it forks, the engine is unloaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from . import runs

Live = Callable[..., tuple[Any, runs.Run]]

# A model of 7 MiB has two replicas here: what is kept in each of forty rounds is 570 MiB. A heap
# with huge pages grows and shrinks by some MiB of its own.
MOST_GROWTH_KIB = 32 * 1024
# One in each round would be forty. libc gives threads that happen to meet a heap each, of two.
MOST_FURTHER_MAPPINGS = 16


@pytest.fixture
def live(libllama: Path, model: Path, tmp_path: Path) -> Live:
    """live(SCENARIO) -> what the program prints without us, and its run with us."""

    def both(scenario: str, *options: str | Path) -> tuple[Any, runs.Run]:
        words = ("--engine-dir", libllama, "--model", model, "--n", "3", *options)
        command = runs.program("lives.py", scenario, *words)
        return runs.plain_line(command), runs.run_mirrored(tmp_path, command, *runs.REHEARSED)

    return both


def test_two_models_loaded_and_used_by_two_threads_at_once(live: Live, second_model: Path) -> None:
    plain, run = live("two-threads", "--second-model", second_model)
    assert len({tuple(text) for text in plain.values()}) == 2
    assert run.line == plain
    assert run.coverage == 1.0


def test_fifty_models_later_the_process_holds_what_it_held(live: Live) -> None:
    plain, run = live("load-and-free", "--n", "1")
    settled, end = run.line["settled"], run.line["end"]
    assert run.line["texts"] == plain["texts"]
    assert len(run.line["texts"]) == 1
    assert end["resident_kib"] - settled["resident_kib"] < MOST_GROWTH_KIB
    assert end["mappings"] - settled["mappings"] <= MOST_FURTHER_MAPPINGS
    assert end["descriptors"] == settled["descriptors"]
    freed = [event for event in run.record["events"] if event["event"] == "freed"]
    assert (
        sum(event["mirrored_bytes"] for event in freed) >= 50 * run.record["mirror"]["gemm_bytes"]
    )


def test_models_freed_while_another_computes(live: Live, second_model: Path) -> None:
    plain, run = live("free-beside", "--second-model", second_model)
    assert len(plain) == 1
    assert run.line == plain


def test_a_fork_after_replication_computes_in_parent_and_child(live: Live) -> None:
    plain, run = live("fork")
    assert run.line == plain
    assert run.line["status"] == 0
    assert run.coverage == 1.0


def test_an_engine_that_is_unloaded_and_loaded_again_is_mirrored_each_time(live: Live) -> None:
    plain, run = live("close-and-reopen")
    assert run.line == plain
    built = [event for event in run.record["events"] if event["event"] == "coverage"]
    assert len(built) == 3
    assert run.coverage == 1.0
