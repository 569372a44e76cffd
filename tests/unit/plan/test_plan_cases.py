"""Sums from public reports (field cases N01 to N04), and the words for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from numamirror_cli.memory.lock_limit import UNLIMITED
from numamirror_cli.plan import advice
from numamirror_cli.plan.engine_args import parse_engine_args
from numamirror_cli.plan.ram import ram_of
from numamirror_cli.report.plan import notice_sentence
from numamirror_cli.report.plan_advice import advise
from tests.unit.plan.made_models import write_gguf
from tests.unit.plan.test_plan_command import MakeRoot, document, plan, strategies

GB, GIB = 10**9, 2**30


@pytest.fixture
def case(shared_dir: Path, request: pytest.FixtureRequest) -> dict[str, Any]:
    """The field case whose id begins the test's name."""
    wanted = request.node.name.split("_")[1].upper()
    cases = json.loads((shared_dir / "cases" / "cases.json").read_text())["plan"]
    return next(each for each in cases if each["id"] == wanted)


def test_n01_four_copies_do_not_fit_and_two_do(case: dict[str, Any]) -> None:
    weights = case["weights_gb"] * GB
    there = {node: size * GB for node, size in enumerate(case["nodes_gb"])}
    by_node = [[node] for node in there]
    per_node = ram_of("mirror", weights, weights, by_node, 0, there)
    per_socket = ram_of("mirror", weights, weights, case["sockets"], 0, there)
    found = advice.copies_that_do_not_fit(per_node, per_socket, there)
    assert found is not None
    assert (per_node.bytes, found.there, per_socket.bytes) == (1500 * GB, 1024 * GB, 750 * GB)
    assert not per_node.fits
    assert per_socket.fits
    said = notice_sentence(advise(found))
    assert "4 copies need 1.4 TiB, have 954 GiB" in said
    assert "one per socket needs 698 GiB: fits" in said


def test_n02_pinned_memory_is_not_split_over_nodes(case: dict[str, Any]) -> None:
    pinned = int(case["pinned_gib"] * GIB)
    nodes = {node: size * GB for node, size in enumerate(case["nodes_gb"])}
    assert pinned < sum(nodes.values())
    found = advice.pinned_too_large(pinned, nodes, parse_engine_args(["-ngl", "9", "--no-mmap"]))
    assert found is not None
    said = notice_sentence(advise(found))
    assert "larger than any node" in said
    assert "pinned memory is not split over nodes" in said
    assert "GGML_CUDA_NO_PINNED=1" in said
    assert advice.pinned_too_large(pinned, nodes, parse_engine_args(["-ngl", "9"])) is None
    assert advice.pinned_too_large(pinned, nodes, parse_engine_args(["--no-mmap"])) is None


def test_n03_the_limit_on_locked_memory(case: dict[str, Any]) -> None:
    need, copies, limit = case["need_bytes"], case["copies"], case["memlock_bytes"]
    locked = parse_engine_args(["--mlock"])
    found = advice.lock_limit(need, copies, limit, locked)
    assert found is not None
    said = notice_sentence(advise(found))
    assert "need 957 MiB of locked memory for 2 copies, limit 64 KiB" in said
    assert "LimitMEMLOCK" in said
    assert "ulimit -l" in said
    assert advice.lock_limit(need, copies, None, locked) is None
    assert advice.lock_limit(need, copies, UNLIMITED, locked) is None
    assert advice.lock_limit(need, copies, need * copies, locked) is None
    assert advice.lock_limit(need, copies, limit, parse_engine_args([])) is None


def test_n04_what_fits_one_node_should_be_compared(case: dict[str, Any]) -> None:
    there = {node: free * GIB for node, free in enumerate(case["node_free_gib"])}
    bind = ram_of("bind", case["weights_gib"] * GIB, 0, [[0], [1]], 0, there)
    found = advice.fits_one_node(bind, len(there))
    assert found is not None
    said = notice_sentence(advise(found))
    assert "60 GiB fits on node 0" in said
    assert "compare with --strategy bind before paying for" in said
    too_large = ram_of("bind", 300 * GIB, 0, [[0], [1]], 0, there)
    assert advice.fits_one_node(too_large, len(there)) is None


# ---- the same through the command: a model file of that size, on a machine of those nodes ----

ROW_BYTES = 2 * 8192


def model_of(path: Path, size: float) -> Path:
    """A file with one F16 matrix of that many bytes, but for a part of a row, and no KV cache to
    speak of. Its weights are a hole."""
    tensors = {
        "blk.0.ffn_up.weight": ((8192, int(size / ROW_BYTES)), "F16"),
        "output.weight": ((32, 32), "F32"),
    }
    return write_gguf(path / "model.gguf", tensors, {"block_count": 1, "context_length": 1})


def machine_of(make_root: MakeRoot, node_bytes: list[float], **facts: Any) -> Path:
    """Nodes of which all is free, of 8 CPUs each."""
    nodes: dict[int, dict[str, Any]] = {}
    for node, size in enumerate(node_bytes):
        mib = int(size / 2**20)
        nodes[node] = {"cpus": f"{8 * node}-{8 * node + 7}", "mem_mib": mib, "free_mib": mib}
    return make_root(nodes, **facts)


def test_n01_plan_adds_up_four_copies_and_two(
    case: dict[str, Any], make_root: MakeRoot, tmp_path: Path
) -> None:
    packages = {f"{16 * n}-{16 * n + 15}": n for n in range(len(case["sockets"]))}
    root = machine_of(make_root, [size * GB for size in case["nodes_gb"]], packages=packages)
    found = document("--root", root, model_of(tmp_path, case["weights_gb"] * GB))
    rows = strategies(found)
    assert rows["mirror node"]["bytes"] == pytest.approx(1500 * GB, rel=1e-3)
    assert not rows["mirror node"]["fits"]
    assert rows["mirror socket"]["bytes"] == pytest.approx(750 * GB, rel=1e-3)
    assert rows["mirror socket"]["fits"]
    assert not rows["bind"]["fits"]
    assert found["choice"]["strategy"] == "shard"


def test_n02_plan_warns_of_pinned_memory_that_no_node_holds(
    case: dict[str, Any], make_root: MakeRoot, tmp_path: Path
) -> None:
    root = machine_of(make_root, [size * GB for size in case["nodes_gb"]])
    model = model_of(tmp_path, case["pinned_gib"] * GIB)
    pins = ["-ngl", "9", "-ot", "ffn=CPU", "--no-mmap"]
    said = plan("--root", root, model, "--", *pins).stdout
    assert "larger than any node" in said
    assert "GGML_CUDA_NO_PINNED=1" in said
    assert "larger than any node" not in plan("--root", root, model, "--", *pins[:-1]).stdout


def test_n03_plan_warns_of_a_limit_on_locked_memory(
    case: dict[str, Any], make_root: MakeRoot, tmp_path: Path
) -> None:
    root = machine_of(make_root, [GIB] * case["copies"])
    limits = root / "proc/self/limits"
    limits.write_text(f"Max locked memory  {case['memlock_bytes']}  unlimited  bytes\n")
    model = model_of(tmp_path, case["need_bytes"])
    said = " ".join(plan("--root", root, model, "--", "--mlock").stdout.split())
    assert "need 957 MiB of locked memory for 2 copies, limit 64 KiB" in said
    assert "raise LimitMEMLOCK= of the unit, or ulimit -l" in said
    assert "locked memory" not in plan("--root", root, model).stdout
    limits.write_text("Max locked memory  unlimited  unlimited  bytes\n")
    assert "locked memory" not in plan("--root", root, model, "--", "--mlock").stdout


def test_n04_plan_weighs_one_node_before_two_copies(
    case: dict[str, Any], make_root: MakeRoot, tmp_path: Path
) -> None:
    gpu = {"address": "0000:82:00.0", "pci_class": "0x030200", "vendor": "0x10de", "numa_node": 1}
    root = machine_of(make_root, [free * GIB for free in case["node_free_gib"]], pci=[gpu])
    model = model_of(tmp_path, case["weights_gib"] * GIB)
    found = document("--root", root, model, "--", "-ngl", "0", "-t", "8")
    rows = strategies(found)
    assert rows["mirror node"]["bytes"] == pytest.approx(2 * case["weights_gib"] * GIB, rel=1e-3)
    assert rows["bind"]["needs"][0]["nodes"] == [1]
    assert rows["bind"]["bytes"] == pytest.approx(case["weights_gib"] * GIB, rel=1e-3)
    assert any("fits on node 1" in note["what"] for note in found["notes"])
    assert found["choice"]["strategy"] == "bind"
