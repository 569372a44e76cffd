"""What two engines of one process share, and what an engine does where its own kernels do not
reach."""

from __future__ import annotations

import moe
import pytest
from rig import (
    Engine,
    Run,
    gemm_bytes_in,
    model_path,
    no_iqk_library,
    poison_library,
    run_mirrored,
    run_plain,
)
from test_engines_mirror import TWO_REPLICAS
from test_engines_poison import (
    GEMM,
    MAY_READ_THE_PRIMARY,
    PAGE_BYTES,
    PROMPT_AND_TEXT_TOKENS,
    pages_in,
    reads_by,
)


def second_model() -> tuple[str, ...]:
    return ("--second-model", str(model_path("moe-Q4_K")))


def both_mirrored(two_engines: Engine) -> Run:
    return run_mirrored(two_engines, "moe-Q8_0", TWO_REPLICAS, second_model(), poisoned=True)


def test_two_engines_in_one_process_each_call_their_own_functions(
    two_engines: Engine, xllamacpp: Engine, ik_llama: Engine
) -> None:
    mirrored = both_mirrored(two_engines)
    assert mirrored.line == run_plain(two_engines, "moe-Q8_0", *second_model())
    assert mirrored.line["text"] == run_plain(xllamacpp, "moe-Q8_0")["text"]
    assert mirrored.line["second"]["text"] == run_plain(ik_llama, "moe-Q4_K")["text"]
    assert mirrored.mirror["gemm_bytes"] == gemm_bytes_in("moe-Q8_0") + gemm_bytes_in("moe-Q4_K")
    assert mirrored.mirror["coverage"] == 1.0
    assert mirrored.mirror["not_redirected"] == 0


def test_neither_of_two_engines_reads_its_primary_in_gemm(two_engines: Engine) -> None:
    run = both_mirrored(two_engines)
    others = [
        read
        for read in run.poison["reads"]
        if read not in reads_by(run.poison, MAY_READ_THE_PRIMARY)
    ]
    assert run.poison["bytes"] > 0.95 * run.mirror["mirrored_bytes"]
    assert reads_by(run.poison, GEMM) == run.poison["writes"] == []
    # ik_llama.cpp's look-ups have no names.
    assert pages_in(others) < 3 * PROMPT_AND_TEXT_TOKENS


# ik_llama.cpp's own kernels take every type that a model file can hold. Without them it falls back
# on ggml_vec_dot_* over data that was prepared for them, so that only the first token makes sense.
ONE_TOKEN = ("--n", "1")


@pytest.mark.parametrize(
    ("model", "function"), [("moe-Q8_0", "ggml_vec_dot_q8_0"), ("moe-Q3_K", "ggml_vec_dot_q3_K")]
)
def test_rows_that_ik_llama_reads_one_by_one_come_from_a_replica(
    ik_llama: Engine, model: str, function: str
) -> None:
    def poisoned(*environment: tuple[str, str]) -> list[dict[str, object]]:
        run = run_mirrored(ik_llama, model, TWO_REPLICAS, ONE_TOKEN, environment, poisoned=True)
        assert run.mirror["coverage"] == 1.0
        without = (("LD_PRELOAD", str(no_iqk_library())),)
        assert run.line == run_plain(ik_llama, model, *ONE_TOKEN, environment=without)
        return reads_by(run.poison, (function,))

    preload = ("LD_PRELOAD", f"{no_iqk_library()}:{poison_library()}")
    assert poisoned(preload) == []
    assert poisoned(preload, ("NUMAMIRROR_TEST_NO_REDIRECT", "1")) != []


@pytest.mark.parametrize("type_name", moe.FLOAT_TYPES)
def test_rows_that_ik_llamas_kernels_turn_away_are_read_from_the_primary_and_counted_so(
    ik_llama: Engine, type_name: str
) -> None:
    """Rows that are no multiple of what a kernel takes at a step: nothing that can be interposed
    reads them."""
    model = f"odd-moe-{type_name}"
    run = run_mirrored(ik_llama, model, TWO_REPLICAS, poisoned=True)
    assert run.line == run_plain(ik_llama, model)
    assert run.mirror["coverage"] == 1.0
    assert pages_in(run.poison["reads"]) * PAGE_BYTES > 2**20
    assert run.mirror["not_redirected"] > 0
    assert run.mirror["locality"] < 1.0
