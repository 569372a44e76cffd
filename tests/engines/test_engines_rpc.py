"""llama.cpp over machines: a client without weights of its own, two workers that compute."""

from __future__ import annotations

import functools
import json
import re
import shlex
import tempfile
from pathlib import Path
from typing import Any

import pytest
from drive_llama_rpc import WORKERS
from rig import (
    LLAMA_RPC,
    Engine,
    driver_line,
    finished,
    gemm_bytes_in,
    numamirror_run,
    poison_library,
    run_plain,
)
from test_engines_check import check
from test_engines_mirror import TWO_REPLICAS
from test_engines_poison import GEMM, reads_by

MODELS = ["moe-Q8_0", "dense-Q4_K"]


@functools.cache
def run_with_mirrored_workers(model: str) -> tuple[dict[str, Any], list[Any], list[Any]]:
    """The driver's line, and the mirror and the poison's report of each worker."""
    with tempfile.TemporaryDirectory() as scratch:
        run = numamirror_run(Path(scratch) / "{worker}.json", *TWO_REPLICAS)
        poison = Path(scratch) / "{worker}.poison"
        preload = ["env", f"LD_PRELOAD={poison_library()}", f"POISON_REPORT={poison}"]
        preload += ["POISON_AT_INTERRUPT=1"]  # which is how workers end
        settled = Path(scratch) / "{worker}.settled"
        preload += [f"POISON_SETTLED={settled}"]
        under = ("--under", shlex.join([*preload, *run]), "--pause", "0.3")
        for worker in range(WORKERS):
            under += ("--until", str(settled).format(worker=worker))
        line = driver_line(finished(LLAMA_RPC.command(model, *under), {}))
        mirrors = [
            json.loads(p.read_text())["mirror"] for p in sorted(Path(scratch).glob("*.json"))
        ]
        poisons = [json.loads(p.read_text()) for p in sorted(Path(scratch).glob("*.poison"))]
        return line, mirrors, poisons


@pytest.mark.parametrize("model", MODELS)
def test_the_text_over_mirrored_workers_is_identical(llama_rpc: Engine, model: str) -> None:
    line, _, _ = run_with_mirrored_workers(model)
    assert line == run_plain(llama_rpc, model)


@pytest.mark.parametrize("model", MODELS)
def test_both_workers_mirror_all_weights_they_were_sent_and_no_cache(
    llama_rpc: Engine, model: str
) -> None:
    _, mirrors, _ = run_with_mirrored_workers(model)
    assert len(mirrors) == 2
    for mirror in mirrors:
        assert mirror["coverage"] == 1.0
        assert mirror["redirected"] > 0
        assert mirror["not_redirected"] == 0
    assert sum(mirror["mirrored_bytes"] for mirror in mirrors) == gemm_bytes_in(model)


@pytest.mark.parametrize("model", MODELS)
def test_no_worker_reads_its_primary_in_gemm(llama_rpc: Engine, model: str) -> None:
    _, mirrors, poisons = run_with_mirrored_workers(model)
    for mirror, poison in zip(mirrors, poisons, strict=True):
        assert reads_by(poison, GEMM) == []
        assert poison["writes"] == []
        assert poison["bytes"] > 0.9 * mirror["mirrored_bytes"]


# ---- workers with all of ggml inside ----

NOT_KNOWN = "its RPC server is no library of its own"


def test_workers_with_ggml_inside_compute_their_own_text_and_a_line_says_why_no_mirror(
    static_workers: Engine, tmp_path: Path
) -> None:
    run = shlex.join(numamirror_run(tmp_path / "{worker}.json", *TWO_REPLICAS))
    (model,) = static_workers.models
    done = finished(static_workers.command(model, "--under", run), {})
    assert driver_line(done) == run_plain(static_workers, model)
    weights_at = re.findall(r"RPC\d+\[(\S+)\] model buffer size", done.stderr)
    assert len(set(weights_at)) == WORKERS
    said = [line for line in done.stderr.splitlines() if NOT_KNOWN in line]
    assert len(said) == WORKERS
    for line in said:
        # The workers and their client share the output: a part of another's line may stand before.
        assert "numamirror: ggml-rpc-server (ggml 0.25.3" in line
    reports = list(tmp_path.glob("*.json"))
    assert len(reports) == WORKERS
    for report in reports:
        mirror = json.loads(report.read_text())["mirror"]
        assert mirror is None or mirror["mirrored_bytes"] == 0


def test_check_says_so_of_a_worker_with_ggml_inside(static_workers: Engine) -> None:
    (model,) = static_workers.models
    verdict = check(*static_workers.checked(model))["verdict"]
    assert verdict["level"] == "policy only"
    assert NOT_KNOWN in verdict["why"] and "BUILD_SHARED_LIBS" in verdict["remedy"]
