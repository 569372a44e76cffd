"""Other ways in which people load models: repacked or not, read or mapped, two at once."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from rig import (
    Engine,
    driver_line,
    finished,
    gemm_bytes_in,
    model_path,
    numamirror_run,
    run_mirrored,
    run_plain,
)
from test_engines_mirror import TWO_REPLICAS

LOADING = [("--no-mmap",), ("--no-repack",), ("--no-mmap", "--no-repack")]


@pytest.mark.parametrize("options", LOADING, ids=" ".join)
@pytest.mark.parametrize("model", ["moe-Q4_0", "dense-Q4_K"])
def test_loading_options_change_nothing(
    xllamacpp: Engine, model: str, options: tuple[str, ...]
) -> None:
    mirrored = run_mirrored(xllamacpp, model, TWO_REPLICAS, options)
    assert mirrored.line == run_plain(xllamacpp, model, *options)
    assert mirrored.mirror["coverage"] == 1.0
    assert mirrored.mirror["not_redirected"] == 0


@pytest.mark.parametrize("kind", ["xllamacpp", "node_llama_cpp"])
def test_two_models_in_one_process_are_both_mirrored(
    kind: str, request: pytest.FixtureRequest
) -> None:
    engine: Engine = request.getfixturevalue(kind)
    second = ("--second-model", str(model_path("dense-Q8_0")))
    mirrored = run_mirrored(engine, "moe-Q4_K", TWO_REPLICAS, second)
    plain = run_plain(engine, "moe-Q4_K", *second)
    assert mirrored.line == plain
    assert plain["text"] != plain["second"]["text"]
    assert mirrored.mirror["gemm_bytes"] == gemm_bytes_in("moe-Q4_K") + gemm_bytes_in("dense-Q8_0")
    assert mirrored.mirror["coverage"] == 1.0


def test_small_matrices_are_left_out_and_counted_by_default(xllamacpp: Engine) -> None:
    mirror = run_mirrored(xllamacpp, "moe-F16", ("--rehearse", "2")).mirror
    assert mirror["small_bytes"] > 0
    assert mirror["mirrored_bytes"] + mirror["small_bytes"] == gemm_bytes_in("moe-F16")
    assert 0.9 < mirror["coverage"] < 1.0


def test_llama_server_started_directly_ends_as_it_would_without_us(
    llama_server: Engine, tmp_path: Path
) -> None:
    report = tmp_path / "run.json"
    under = shlex.join(numamirror_run(report, *TWO_REPLICAS))
    done = finished(llama_server.command("moe-Q8_0", "--under", under), {})
    result = json.loads(report.read_text())
    assert driver_line(done) == run_plain(llama_server, "moe-Q8_0")
    assert result["mirror"]["coverage"] == 1.0
    assert result["child"]["exit_code"] == 0


@pytest.mark.parametrize("threads", ["1", "3"])
def test_any_number_of_threads_works(xllamacpp: Engine, threads: str) -> None:
    options = ("--threads", threads)
    mirrored = run_mirrored(xllamacpp, "moe-IQ2_XXS", TWO_REPLICAS, options)
    assert mirrored.line == run_plain(xllamacpp, "moe-IQ2_XXS", *options)
    assert mirrored.mirror["not_redirected"] == 0


def test_a_program_without_an_engine_is_left_alone(tmp_path: Path) -> None:
    report = tmp_path / "run.json"
    done = finished([*numamirror_run(report, *TWO_REPLICAS), "/bin/echo", "as ever"], {})
    assert done.stdout == "as ever\n"
    assert json.loads(report.read_text())["mirror"] in (None, {})
