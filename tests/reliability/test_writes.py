"""Weights that change after they were mirrored: the next product is made of the new bytes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from . import runs
from .engine_program import build, products, was_mirrored

WRITES = (
    "tensor_set", "tensor_set of a part", "tensor_set_async", "tensor_set_2d", "tensor_memset",
    "tensor_copy", "buffer_clear", "op, same graph", "op, next graph", "op on a view",
)  # fmt: skip


@pytest.fixture(scope="module")
def writer(libllama: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The program, and its argument."""
    return str(build(libllama, tmp_path_factory.mktemp("writer"))), str(libllama)


@pytest.fixture(scope="module")
def plain(writer: tuple[str, str]) -> dict[str, str]:
    return products(runs.run(writer))


@pytest.fixture(scope="module")
def mirrored(writer: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> runs.Run:
    return runs.run_mirrored(tmp_path_factory.mktemp("run"), writer, *runs.REHEARSED)


@pytest.mark.parametrize("step", WRITES)
def test_a_product_after_a_write_is_that_of_the_engine_alone(
    step: str, plain: dict[str, str], mirrored: runs.Run
) -> None:
    assert products(mirrored)[step] == plain[step]


def test_the_writes_change_the_product_and_the_weights_were_mirrored(
    plain: dict[str, str], mirrored: runs.Run
) -> None:
    """What makes the comparison one: stale replicas would give an older product."""
    in_order = list(plain.values())
    changed = [a != b for a, b in pairwise(in_order)]
    assert sum(changed) >= len(WRITES) - 2
    assert was_mirrored(mirrored)


def test_weights_that_an_op_wrote_to_are_read_where_they_are_and_that_is_said(
    mirrored: runs.Run,
) -> None:
    sentence = "NOT mirrored: the engine writes to these weights while it computes"
    assert mirrored.verdict[0] == sentence
