"""Which weights stay on the CPU, and what a token reads of them. All sums are done by hand here;
tests/engines compares them with what real engines report."""

from __future__ import annotations

import pytest

from numamirror_cli.plan.engine_args import parse_engine_args
from numamirror_cli.plan.facts import Model
from numamirror_cli.plan.workload import Workload, weigh
from tests.unit.plan.made_models import BYTES, MIB, SETTINGS, TENSORS, WHOLE, made_model

UP, Q, EMBD, ROUTER = (
    BYTES["ffn_up"],
    BYTES["attn_q"],
    BYTES["token_embd.weight"],
    BYTES["gate_inp"],
)


def weighed(words: str = "", model: Model | None = None, min_bytes: int = MIB) -> Workload:
    return weigh(model or made_model(), parse_engine_args(words.split()), min_bytes)


def test_without_gpus_all_matrices_are_read_and_experts_as_far_as_they_are_used() -> None:
    work = weighed()
    assert work.resident == WHOLE
    assert work.dense == EMBD + 2 * Q + 2 * UP + ROUTER  # output, attention, FFNs, router
    assert work.experts == 16 * UP
    assert work.read == work.dense + 16 * UP * 2 / 8


def test_norms_biases_and_the_looked_up_embedding_are_not_read_by_gemm() -> None:
    assert WHOLE - weighed().gemm == EMBD + 2 * 512 * 4 + 1024 * 4


def test_an_embedding_that_is_the_output_too_is_read_whole() -> None:
    tied = {name: facts for name, facts in TENSORS.items() if name != "output.weight"}
    assert weighed(model=made_model(tied)).dense == weighed().dense
    assert weighed("-ngl 1", made_model(tied)).dense == weighed().dense - EMBD


def test_layers_go_to_the_gpu_from_the_end_and_the_output_is_the_last() -> None:
    everything = weighed()
    assert weighed("-ngl 1").gemm == everything.gemm - EMBD
    assert weighed("-ngl 2").gemm == Q + UP  # layer 0 is left
    assert weighed("-ngl 99").gemm == 0
    assert weighed("-ngl 99").resident == EMBD  # the input table stays


def test_cpu_moe_keeps_the_experts_and_nothing_else() -> None:
    work = weighed("-ngl 99 --cpu-moe")
    assert (work.dense, work.experts) == (0, 16 * UP)
    assert work.read == 4 * UP
    assert weighed("-ngl 99 --n-cpu-moe 1").experts == 0  # layer 0 has none
    assert weighed("-ngl 99 --n-cpu-moe 2").experts == 16 * UP


def test_the_first_override_that_matches_decides() -> None:
    assert weighed("-ngl 99 -ot up_exps=CPU").experts == 8 * UP
    assert weighed("-ngl 99 -ot up_exps=CUDA0,exps=CPU").experts == 8 * UP
    assert weighed("-ot exps=CUDA0").experts == 0


def test_small_tensors_are_left_to_the_primary() -> None:
    work = weighed()
    assert work.small == ROUTER
    assert work.copied == work.gemm - ROUTER
    assert work.coverage == pytest.approx(1 - ROUTER / work.read)
    assert weighed(min_bytes=1).coverage == 1
    # Experts are read in part: so is what is lost by leaving them out.
    lost = weighed(min_bytes=16 * MIB)
    assert lost.small_read == pytest.approx(lost.read)


def test_what_is_read_whole_is_copied_first() -> None:
    work = weighed()
    assert work.partial_coverage(0) == 0
    assert work.partial_coverage(work.dense) == pytest.approx(work.dense / work.read)
    half = work.dense + work.experts // 2
    assert work.partial_coverage(half) == pytest.approx((work.dense + 2 * UP) / work.read)
    assert work.partial_coverage(1 << 40) == work.coverage


def test_layers_for_further_tokens_take_memory_and_are_not_read() -> None:
    work = weighed(model=made_model(settings={**SETTINGS, "nextn_predict_layers": 1}))
    assert work.resident == WHOLE
    assert (work.experts, work.dense) == (0, EMBD + Q + UP)
