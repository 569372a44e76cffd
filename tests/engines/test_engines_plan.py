"""What `numamirror plan` says of a model is what a real engine reads of it."""

from __future__ import annotations

import pytest
from rig import Engine, Run, model_path, run_mirrored, run_plain

from numamirror_cli.plan.engine_args import parse_engine_args
from numamirror_cli.plan.gguf_header import read_model
from numamirror_cli.plan.workload import weigh

FEW, MORE = 4, 12


def generate(engine: Engine, model: str, tokens: int) -> Run:
    run = run_mirrored(engine, model, ("--rehearse", "2"), ("--n", str(tokens)))
    assert len(run.line["tokens"]) == tokens
    return run


@pytest.mark.parametrize("name", ["gemma", "moe-Q8_0", "moe-Q4_0"])
def test_a_real_engine_reads_the_bytes_that_plan_says(xllamacpp: Engine, name: str) -> None:
    few, more = (generate(xllamacpp, name, tokens).mirror for tokens in (FEW, MORE))
    work = weigh(read_model(model_path(name)), parse_engine_args([]))
    assert few["gemm_bytes"] == work.gemm
    assert few["small_bytes"] == work.small
    assert few["mirrored_bytes"] == work.copied
    per_token = (more["read_bytes"] - few["read_bytes"]) / (MORE - FEW)
    # The shim books an op's bytes by thread: division leaves less than a byte per thread and op.
    assert per_token == pytest.approx(work.read, rel=1e-5)


@pytest.mark.parametrize("name", ["gemma", "moe-Q8_0"])
def test_observing_counts_the_same_and_copies_nothing(xllamacpp: Engine, name: str) -> None:
    run = run_mirrored(xllamacpp, name, ("--observe",), ("--n", str(FEW)))
    seen, work = run.mirror, weigh(read_model(model_path(name)), parse_engine_args([]))
    assert run.line == run_plain(xllamacpp, name, "--n", str(FEW))
    assert (seen["mirrored_bytes"], seen["arena_bytes"]) == (0, 0)
    assert seen["observed_bytes"] == seen["gemm_bytes"] == work.gemm
    assert seen["decode_bytes"] / seen["decode_graphs"] == pytest.approx(work.read, rel=1e-5)
