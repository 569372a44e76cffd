"""When not all fits: what a token reads most of is mirrored first, and the report says how much."""

from __future__ import annotations

import functools

import gguf
import pytest
from rig import Engine, Run, gemm_bytes_in, model_path, run_mirrored, run_plain
from test_engines_poison import GEMM, reads_by

MODEL = "moe-Q8_0"
EXPERTS, USED = 8, 2  # of moe.py's shapes


def half_budget(model: str) -> tuple[str, ...]:
    """Options for a rehearsal whose second node has room for half of what GEMM reads."""
    budget = f"{gemm_bytes_in(model) // 2}"
    return ("--rehearse", "2", "--min-size", "1", "--budget", budget)


@functools.cache
def token_bytes_in(model: str) -> int:
    """Bytes that one token reads by the model file's own account: of experts those used."""
    matrices = [t for t in gguf.GGUFReader(model_path(model)).tensors if len(t.shape) > 1]
    read = [t for t in matrices if t.name != "token_embd.weight"]  # output.weight is apart
    experts = sum(int(t.n_bytes) for t in read if "_exps" in t.name)
    return sum(int(t.n_bytes) for t in read) - experts + experts * USED // EXPERTS


@pytest.fixture
def halved(engine: Engine) -> Run:
    return run_mirrored(engine, MODEL, half_budget(MODEL))


def test_half_the_budget_covers_more_than_half_of_what_a_token_reads(halved: Run) -> None:
    mirror = halved.mirror
    assert mirror["token_bytes"] == token_bytes_in(MODEL)
    assert 0.4 < mirror["coverage"] <= 0.5
    assert mirror["coverage_read"] > max(0.5, mirror["coverage"] + 0.1)
    assert mirror["mirrored_bytes"] + mirror["refused_bytes"] == mirror["gemm_bytes"]


def test_with_half_the_budget_the_text_is_the_same(engine: Engine, halved: Run) -> None:
    assert halved.line == run_plain(engine, MODEL)


def test_what_is_missing_is_said_in_bytes(halved: Run) -> None:
    short = (gemm_bytes_in(MODEL) - gemm_bytes_in(MODEL) // 2 + (1 << 20) - 1) >> 20
    assert f"raise --budget by {short} MiB for all of it" in halved.mirror["reason"]


# Those that name each expert by its own address; repacked weights are copied as wholes.
ADAPTING = (*half_budget(MODEL), "--adapt", "40")


@pytest.fixture
def adapted(engine: Engine) -> Run:
    return run_mirrored(engine, MODEL, ADAPTING)


def test_experts_that_were_counted_cover_more_of_the_reads(adapted: Run, halved: Run) -> None:
    """Under one budget; the shares of this run's reads, prompt included, are counted in both."""
    assert adapted.mirror["mirrored_bytes"] <= gemm_bytes_in(MODEL) // 2
    assert adapted.mirror["token_bytes"] == token_bytes_in(MODEL)
    assert adapted.mirror["coverage_read"] > halved.mirror["coverage_read"] + 0.1


def test_with_counted_experts_the_text_is_the_same(engine: Engine, adapted: Run) -> None:
    assert adapted.line == run_plain(engine, MODEL)


def test_nobody_reads_the_primary_of_an_expert_that_was_copied(engine: Engine) -> None:
    """Each reader has a replica, and what that holds of the primary is unreadable."""
    longer = ("--n", "48")  # the experts are there only when the prompt was read
    run = run_mirrored(engine, MODEL, (*ADAPTING, "--copy-home"), longer, poisoned=True)
    assert run.line == run_plain(engine, MODEL, *longer)
    assert run.poison["bytes"] > 0.9 * run.mirror["mirrored_bytes"]
    assert reads_by(run.poison, GEMM) == []


def test_repacked_experts_are_copied_as_whole_tensors_all_the_same(xllamacpp: Engine) -> None:
    """One pointer serves all experts of a repacked tensor: there is nothing to count."""
    repacked = "moe-Q4_0"
    run = run_mirrored(xllamacpp, repacked, (*half_budget(repacked), "--adapt", "40"))
    assert run.line == run_plain(xllamacpp, repacked)
    assert run.mirror["coverage_read"] > max(0.5, run.mirror["coverage"])
    assert "experts follow" not in run.mirror["reason"]
