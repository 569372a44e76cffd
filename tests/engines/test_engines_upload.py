"""Experts that a long prompt sends to a GPU, and the copy that they are read from."""

from __future__ import annotations

import functools

import pytest
from rig import LLAMA_UPLOAD, Engine, Run, run_mirrored, run_plain
from test_engines_check import expert_bytes_in
from test_engines_mirror import TWO_REPLICAS

MODEL = "tiny-moe-Q8_0"
OPTIONS = ("--no-mmap", "--n", "4")


@functools.cache
def uploading(source_node: str) -> Run:
    """Under a rehearsal; source_node: the pretend node to upload from, "" for the GPU's own, which
    is unknown, since Mesa's software device is on no bus."""
    forced = (("NUMAMIRROR_SRC_NODE", source_node),) if source_node else ()
    poisoned = source_node == "1"
    return run_mirrored(LLAMA_UPLOAD, MODEL, TWO_REPLICAS, OPTIONS, forced, poisoned)


@pytest.mark.parametrize("source_node", ["0", "1"])
def test_experts_are_uploaded_from_the_replica_on_the_named_node(
    llama_upload: Engine, source_node: str
) -> None:
    mirror = uploading(source_node).mirror
    assert mirror["upload_replica_bytes"] > 2**20
    assert mirror["upload_primary_bytes"] == 0
    assert mirror["mirrored_bytes"] == mirror["gemm_bytes"] == expert_bytes_in(MODEL)


def test_nobody_reads_its_primary_of_an_expert_that_is_uploaded(llama_upload: Engine) -> None:
    run = uploading("1")
    assert run.poison["bytes"] > 0.95 * run.mirror["mirrored_bytes"]
    assert run.poison["reads"] == run.poison["writes"] == []


def test_experts_for_a_gpu_on_an_unknown_node_come_from_the_engines_own_source(
    llama_upload: Engine,
) -> None:
    mirror = uploading("").mirror
    assert mirror["upload_replica_bytes"] == 0
    assert mirror["upload_primary_bytes"] == uploading("1").mirror["upload_replica_bytes"]


@pytest.mark.parametrize("source_node", ["", "0", "1"])
def test_the_text_does_not_depend_on_the_source(llama_upload: Engine, source_node: str) -> None:
    assert uploading(source_node).line == run_plain(llama_upload, MODEL, *OPTIONS)
