"""What `plan` adds to its figures: what was assumed, left out, or not understood."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.plan.made_models import SETTINGS, TENSORS, tensor_bytes, write_gguf
from tests.unit.plan.test_plan_command import document, plan

MakeRoot = Callable[..., Path]
NODES: dict[int, dict[str, Any]] = {
    node: {"cpus": cpus, "mem_mib": 262144, "free_mib": 250000}
    for node, cpus in enumerate(("0-31", "32-63"))
}
SMALL = tensor_bytes((512, 1024), "Q8_0")


@pytest.fixture
def two_nodes(make_root: MakeRoot) -> Path:
    return make_root(NODES, packages={"0-31": 0, "32-63": 1}, distances=[[10, 32], [32, 10]])


def notes(*words: str | Path) -> dict[str, str]:
    """What -> why of each note."""
    return {note["what"]: note["why"] for note in document(*words)["notes"]}


def test_gpu_layers_without_a_gpu_are_believed_and_that_is_said(
    tmp_path: Path, two_nodes: Path
) -> None:
    model = write_gguf(tmp_path / "model.gguf")
    said = notes("--root", two_nodes, model, "--", "-ngl", "1")
    assert said["-ngl is taken as it stands"] == "no GPU is seen here"


def test_layers_that_predict_further_tokens_are_not_counted_as_read(
    tmp_path: Path, two_nodes: Path
) -> None:
    """As in DeepSeek and GLM models: the file has them, an ordinary token does not read them."""
    settings = {**SETTINGS, "nextn_predict_layers": 1}
    with_extra = write_gguf(tmp_path / "extra.gguf", settings=settings)
    without = write_gguf(tmp_path / "plain.gguf")
    said = notes("--root", two_nodes, with_extra)
    assert said["the last layer predicts further tokens"] == (
        "they take memory and are not read otherwise"
    )
    read = [
        document("--root", two_nodes, model)["cpu"]["read_bytes_per_token"]
        for model in (with_extra, without)
    ]
    assert read[0] < read[1]


def test_a_type_that_gguf_does_not_know_is_sized_by_where_the_next_tensor_begins(
    tmp_path: Path, two_nodes: Path
) -> None:
    """ik_llama.cpp has types of its own."""
    model = write_gguf(tmp_path / "own.gguf")
    name = b"blk.0.ffn_up.weight"
    raw = bytearray(model.read_bytes())
    # In a tensor's entry: its name, the number of dimensions, those, then the type (gguf.md).
    at = raw.index(name) + len(name)
    (dimensions,) = struct.unpack_from("<I", raw, at)
    struct.pack_into("<I", raw, at + 4 + 8 * dimensions, 4711)
    model.write_bytes(raw)
    found = document("--root", two_nodes, model)
    said = {note["what"]: note["why"] for note in found["notes"]}
    assert said["tensors of type 4711"] == "gguf does not know them: sizes are taken from offsets"
    plain = document("--root", two_nodes, write_gguf(tmp_path / "plain.gguf"))
    assert found["cpu"]["gemm_bytes"] == plain["cpu"]["gemm_bytes"]


def test_reads_from_tensors_too_small_to_copy_are_said(tmp_path: Path, two_nodes: Path) -> None:
    tensors = {**TENSORS, "blk.0.attn_q.weight": ((512, 1024), "Q8_0")}
    assert SMALL < 1 << 20
    said = notes("--root", two_nodes, write_gguf(tmp_path / "model.gguf", tensors))
    (what,) = [what for what in said if what.startswith("a mirror serves ")]
    assert said[what] == "the rest is in tensors below 1 MiB"


def test_with_everything_on_gpus_there_is_nothing_to_mirror(
    tmp_path: Path, make_root: MakeRoot
) -> None:
    card = {"address": "0000:82:00.0", "pci_class": "0x030200", "vendor": "0x10de", "numa_node": 1}
    root = make_root(NODES, pci=[card])
    tensors = {name: facts for name, facts in TENSORS.items() if not name.startswith("token_embd")}
    model = write_gguf(tmp_path / "model.gguf", tensors)
    said = notes("--root", root, model, "--", "-ngl", "99")
    assert said["GEMM on the CPU reads nothing"] == "there is nothing to mirror"


def test_a_home_without_cpus_is_refused_with_those_that_would_do(
    tmp_path: Path, make_root: MakeRoot
) -> None:
    root = make_root({0: {"cpus": "0-7"}, 1: {"cpus": "8-15"}, 2: {"cpus": ""}})
    model = write_gguf(tmp_path / "model.gguf")
    done = plan("--root", root, "--home", "2", model)
    assert done.returncode == 2
    assert "node 2 has no CPUs: what its memory gives is not predicted" in done.stderr
    assert "choose a home among nodes 0-1" in done.stderr


def test_a_download_that_broke_off_is_told(tmp_path: Path, two_nodes: Path) -> None:
    """The figures are those of the whole model, which its header tells."""
    model = write_gguf(tmp_path / "model.gguf")
    assert not [what for what in notes("--root", two_nodes, model) if "in its files" in what]
    with model.open("r+b") as file:
        file.truncate(model.stat().st_size // 2)
    said = notes("--root", two_nodes, model)
    (what,) = [what for what in said if what.endswith("in its files")]
    assert what.startswith("only ")
    assert said[what] == "the figures are for all of it"
