"""An engine that the shim cannot read or reach is left alone, and one line names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import stand_in

NAMED = f"libengine.so (ggml {stand_in.VERSION}): "

# How it is built, what is left undone, and the function or field that does not fit.
FAULTS = [
    ("-DSTAND_IN_UNREADABLE", "this engine cannot be mirrored", "ggml_tensor.data"),
    ("-Dggml_graph_node=hidden", "this engine cannot be mirrored", "ggml_graph_node"),
]
OPS, ROWS = "ggml_cpu_extra_compute_forward", "ggml_vec_dot_"


def run(
    directory: Path, *flags: str, is_bound: Callable[[str], bool] = lambda _: False
) -> tuple[list[str], dict[str, Any]]:
    """The lines of `run` that name the engine's library, and the mirror."""
    engine = stand_in.library(directory, *flags, is_bound=is_bound)
    log, mirror = stand_in.run(directory, [stand_in.program(engine)])
    return [line for line in log.splitlines() if engine.name in line], mirror


@pytest.mark.parametrize(("flag", "undone", "symbol"), FAULTS)
def test_an_engine_that_does_not_fit_is_named_with_version_and_symbol_in_one_line(
    tmp_path: Path, flag: str, undone: str, symbol: str
) -> None:
    lines, mirror = run(tmp_path, flag)
    assert len(lines) == 1
    assert f"{NAMED}{undone}: " in lines[0] and symbol in lines[0]
    assert mirror.get("mirrored_bytes", 0) == 0


def test_an_engine_whose_ops_are_bound_inside_is_named_with_their_function(tmp_path: Path) -> None:
    lines, mirror = run(tmp_path, is_bound=lambda name: name == OPS)
    assert len(lines) == 1
    assert f"{NAMED}no replicas were made: " in lines[0] and OPS in lines[0]
    assert mirror["mirrored_bytes"] == 0


def test_an_engine_whose_kernels_are_bound_inside_is_named_and_mirrored_in_part(
    tmp_path: Path,
) -> None:
    lines, mirror = run(tmp_path, is_bound=lambda name: name.startswith(ROWS))
    assert len(lines) == 1
    assert f"{NAMED}its experts are not mirrored: " in lines[0] and ROWS in lines[0]
    assert 0 < mirror["mirrored_bytes"] < mirror["gemm_bytes"]


def test_an_engine_that_fits_is_mirrored_without_such_a_line(tmp_path: Path) -> None:
    lines, mirror = run(tmp_path)
    assert lines == []
    assert mirror["mirrored_bytes"] == mirror["gemm_bytes"] > 0
