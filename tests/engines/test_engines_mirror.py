"""Real engines under `numamirror run`, as a rehearsal: same output, everything covered."""

from __future__ import annotations

import pytest
from rig import Engine, Run, gemm_bytes_in, run_mirrored, run_plain

# --min-size 1: the small matrices of these small models are to be mirrored like any other.
TWO_REPLICAS = ("--rehearse", "2", "--copy-home", "--min-size", "1")
THREE_NODES = ("--rehearse", "3", "--min-size", "1")


@pytest.fixture(params=[TWO_REPLICAS, THREE_NODES], ids=["two-replicas", "three-nodes"])
def mirrored(request: pytest.FixtureRequest, engine: Engine, model: str) -> Run:
    # The run with two replicas is shared with the poison test, which needs one for each reader.
    return run_mirrored(engine, model, request.param, poisoned=request.param is TWO_REPLICAS)


def test_the_generated_text_is_identical_with_and_without_the_mirror(
    engine: Engine, model: str, mirrored: Run
) -> None:
    plain = run_plain(engine, model)
    assert len(set(plain["scores"])) > 8  # no constant that would hide a wrong weight
    assert mirrored.line == plain


def test_every_matrix_of_the_model_file_is_mirrored(model: str, mirrored: Run) -> None:
    assert mirrored.mirror["gemm_bytes"] == gemm_bytes_in(model)
    assert mirrored.mirror["mirrored_bytes"] == mirrored.mirror["gemm_bytes"]
    assert mirrored.mirror["coverage"] == 1.0


def test_every_matrix_multiplication_reads_a_copy(mirrored: Run) -> None:
    assert mirrored.mirror["redirected"] > 0
    assert mirrored.mirror["not_redirected"] == 0
    assert mirrored.mirror["locality"] == 1.0


def test_a_rehearsal_is_labelled_and_has_the_copies_asked_for(engine: Engine, model: str) -> None:
    for options, roles in (
        (TWO_REPLICAS, ["replica", "replica"]),
        (THREE_NODES, ["primary", "replica", "replica"]),
    ):
        mirror = run_mirrored(engine, model, options, poisoned=options is TWO_REPLICAS).mirror
        assert mirror["rehearsal"] is True
        assert [node["role"] for node in mirror["nodes"].values()] == roles


def test_each_pretend_node_reads_its_own_copy(mirrored: Run) -> None:
    reads = [node["read_bytes"] for node in mirrored.mirror["nodes"].values()]
    assert sum(read > 0 for read in reads) >= 2
