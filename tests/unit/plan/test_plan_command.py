"""`numamirror plan` as a user runs it: the page, the JSON, and what happens to bad input."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import numamirror_cli.report
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.plan.bench_result import to_json
from numamirror_cli.plan.bench_store import load
from tests.unit.plan.made_models import TENSORS, WHOLE, write_gguf
from tests.unit.plan.test_bench import result

GOLDEN = Path(__file__).parents[1] / "golden"
SCHEMA = json.loads(
    (Path(numamirror_cli.report.__file__).parent / "schema/plan-1.json").read_text()
)
MakeRoot = Callable[..., Path]
FIGURES = "local=137,remote=47.7"

NODES: dict[int, dict[str, Any]] = {
    0: {"cpus": "0-31", "mem_mib": 262144, "free_mib": 250000},
    1: {"cpus": "32-63", "mem_mib": 262144, "free_mib": 250000},
}


def plan(*words: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    removed = ("NUMAMIRROR_HOME", "NUMAMIRROR_ROOT", "FORCE_COLOR", "NO_COLOR")
    kept = {name: value for name, value in os.environ.items() if name not in removed}
    return subprocess.run(
        [sys.executable, "-m", "numamirror_cli", "plan", *map(str, words)],
        env=kept | {"COLUMNS": "80", "XDG_CACHE_HOME": "/nonexistent"} | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def document(*words: str | Path) -> dict[str, Any]:
    done = plan("--json", *words)
    assert done.returncode == 0, done.stderr
    loaded: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(loaded, SCHEMA, cls=jsonschema.Draft202012Validator)
    return loaded


def strategies(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{row['strategy']} {row['copies_per'] or ''}".strip(): row for row in found["strategies"]
    }


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "model.gguf")


@pytest.fixture
def two_nodes(make_root: MakeRoot) -> Path:
    return make_root(NODES, packages={"0-31": 0, "32-63": 1}, distances=[[10, 32], [32, 10]])


@pytest.fixture
def four_nodes(make_root: MakeRoot) -> Path:
    nodes = {n: {"cpus": f"{8 * n}-{8 * n + 7}", "mem_mib": 1024, "free_mib": 90} for n in range(4)}
    return make_root(nodes, packages={"0-15": 0, "16-31": 1})


def test_the_page(model: Path, two_nodes: Path) -> None:
    done = plan("--root", two_nodes, "--bandwidth", FIGURES, model, "--", "-t", "64", "--port", "1")
    assert done.stderr == ""
    assert done.stdout == (GOLDEN / "plan-two-nodes.txt").read_text()
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("columns", [34, 40, 56])
def test_on_a_narrow_screen_no_number_is_parted_from_its_unit(
    model: Path, four_nodes: Path, columns: int
) -> None:
    done = plan("--root", four_nodes, "--bandwidth", FIGURES, model, COLUMNS=str(columns))
    assert max(map(len, done.stdout.splitlines())) <= columns
    assert re.findall(r"[\d.]+\s*\n\s*[KMGT]?i?B\b", done.stdout) == []


def test_the_hand_made_prediction_of_the_documentation(tmp_path: Path, two_nodes: Path) -> None:
    """docs/model.md, section 5: a dense model of 16 GiB, interleaved at 4.93 t/s."""
    tensors = {
        "blk.0.ffn_up.weight": ((8192, 1 << 20), "F16"),
        "output.weight": ((32, 32), "F32"),
    }
    path = write_gguf(tmp_path / "dense.gguf", tensors, {"block_count": 1, "context_length": 1})
    done = plan("--root", two_nodes, "--bandwidth", FIGURES, "--measured", "interleave=4.93", path)
    (mirror,) = [line for line in done.stdout.splitlines() if line.startswith("mirror")]
    assert mirror.split()[-4:] == ["63", "6.9", "to", "9.5"]
    found = strategies(document("--root", two_nodes, "--bandwidth", FIGURES, path))
    assert found["mirror node"]["reading_seconds"]["low"] == pytest.approx(0.0627, abs=1e-4)
    assert found["interleave"]["reading_seconds"]["low"] == pytest.approx(0.1214, abs=1e-4)


def test_the_sums_of_memory_are_those_of_the_strategies(model: Path, two_nodes: Path) -> None:
    found = document("--root", two_nodes, model, "--", "-c", "4096")
    whole = WHOLE + found["kv_cache_bytes"]
    rows = strategies(found)
    assert rows["mirror node"]["needs"] == [
        {"nodes": [0], "bytes": whole},
        {"nodes": [1], "bytes": found["cpu"]["gemm_bytes"] - found["cpu"]["small_bytes"]},
    ]
    assert rows["bind"]["needs"] == [{"nodes": [0], "bytes": whole}]
    assert rows["interleave"]["bytes"] == pytest.approx(whole, abs=1)
    assert rows["none"]["needs"] == [{"nodes": [0, 1], "bytes": whole}]
    assert all(row["fits"] for row in rows.values())
    assert all(row["tokens_per_second"] is None for row in rows.values())


def test_shard_reads_as_a_mirror_does_in_the_memory_of_one_copy(
    model: Path, two_nodes: Path
) -> None:
    rows = strategies(document("--root", two_nodes, "--bandwidth", FIGURES, model))
    assert rows["shard"]["needs"] == rows["interleave"]["needs"]
    shard, mirror = (rows[name]["reading_seconds"]["low"] for name in ("shard", "mirror node"))
    assert shard == pytest.approx(mirror, rel=0.01)  # the mirror leaves small tensors at home


def test_copies_for_each_of_four_nodes_and_for_each_socket(model: Path, four_nodes: Path) -> None:
    """34 MiB of model on nodes of which 58 are to be had: 4 copies and 2 copies fit. With a cache
    of 96 MiB the primary fits no node, but a socket."""
    rows = strategies(document("--root", four_nodes, model, "--", "-c", "1024"))
    assert [len(row["needs"]) for name, row in rows.items() if "mirror" in name] == [4, 2]
    assert rows["mirror node"]["fits"]
    large = document("--root", four_nodes, model, "--", "-c", "50000")
    rows = strategies(large)
    assert not rows["mirror node"]["fits"]
    assert rows["mirror socket"]["fits"]
    (note,) = [n for n in large["notes"] if n["what"].startswith("4 copies need")]
    assert "fits; run --per socket" in note["remedy"]


def test_a_home_that_the_gpus_elect_holds_the_primary(model: Path, make_root: MakeRoot) -> None:
    gpu = {"address": "0000:82:00.0", "pci_class": "0x030200", "vendor": "0x10de", "numa_node": 1}
    root = make_root(NODES, pci=[gpu])
    found = document("--root", root, model)
    assert strategies(found)["bind"]["needs"][0]["nodes"] == [1]
    assert any("-ngl is not given and there are 1 GPU" in note["what"] for note in found["notes"])
    named = document("--root", root, "--home", "0", model, "--", "-ngl", "0")
    assert strategies(named)["bind"]["needs"][0]["nodes"] == [0]


def test_one_node_has_one_row(model: Path, make_root: MakeRoot) -> None:
    root = make_root({0: {"cpus": "0-7", "mem_mib": 65536}})
    found = document("--root", root, "--bandwidth", "local=50,remote=50", model)
    assert [row["strategy"] for row in found["strategies"]] == ["none"]
    assert found["strategies"][0]["tokens_per_second"]["high"] > 0
    assert found["choice"]["strategy"] == "none"


def test_a_kernel_without_numa_is_no_error(model: Path, tmp_path: Path) -> None:
    (tmp_path / "bare/sys").mkdir(parents=True)
    done = plan("--root", tmp_path / "bare", model)
    assert done.returncode == 0
    assert "none: all CPUs and memory are on one node" in done.stdout


def test_a_measurement_that_the_memory_does_not_allow_is_said(model: Path, two_nodes: Path) -> None:
    words = ["--root", str(two_nodes), "--bandwidth", FIGURES, "--measured", "bind=1000000", model]
    notes = document(*words)["notes"]
    assert any("faster than the bandwidth allows" in note["what"] for note in notes)


def test_a_tie_between_embedding_and_output_counts_once(tmp_path: Path, two_nodes: Path) -> None:
    tied = {name: facts for name, facts in TENSORS.items() if name != "output.weight"}
    found = document("--root", two_nodes, write_gguf(tmp_path / "tied.gguf", tied))
    assert found["cpu"]["gemm_bytes"] <= found["cpu"]["resident_bytes"]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["absent.gguf"], 1, "absent.gguf: there is no such file"),
        (["--bandwidth", "137", "MODEL"], 2, "--bandwidth 137: not of the form"),
        (["--bandwidth", "local=0,remote=1", "MODEL"], 2, "local=0"),
        (["--bandwidth", "local=nan,remote=inf", "MODEL"], 2, "local=nan"),
        (["--measured", "magic=3", "MODEL"], 2, "--measured magic=3"),
        (["--measured", "mirror=-3", "MODEL"], 2, "--measured mirror=-3"),
        (["--home", "7", "MODEL"], 2, "there is no node 7"),
        (["--bench", "absent.json", "MODEL"], 1, "absent.json"),
        (["--bench", "b", "--bandwidth", FIGURES, "MODEL"], 2, "exclude one another"),
        (["MODEL", "--json"], 2, "--json stands behind MODEL.gguf"),
        (["MODEL", "--home=1"], 2, "put it in front of MODEL.gguf"),
        (["MODEL", "-t", "4", "--bandwidth", FIGURES], 2, "--bandwidth stands behind MODEL.gguf"),
        (["MODEL", "--", "-ngl", "many"], 2, "-ngl many"),
        (["MODEL", "--", "-ctk", "q9"], 2, "-ctk q9"),
    ],
)
def test_bad_input_is_named(
    model: Path, two_nodes: Path, words: list[str], status: int, said: str
) -> None:
    named = [str(model) if word == "MODEL" else word for word in words]
    done = plan("--root", two_nodes, *named)
    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no result of numamirror bench"),
        (b"\xff\xfe", "no result of numamirror bench"),
        (b"[" * 100_000, "no result of numamirror bench"),
        (b"[1]", "no result of numamirror bench"),
        (b"{}", "no result of numamirror bench"),
        (b'{"schema": 1, "identity": {"cpu": "", "nodes": []}}', "no result of numamirror bench"),
        (b'{"schema": 2}', "of another version of numamirror (schema 2)"),
    ],
)
def test_a_file_that_is_no_bench_is_named_in_the_users_words(
    tmp_path: Path, content: bytes, said: str
) -> None:
    file = tmp_path / "b.json"
    file.write_bytes(content)
    with pytest.raises(NumaMirrorError) as raised:
        load(file)
    assert raised.value.message.startswith(f"{file}: ")
    assert said in raised.value.message
    assert raised.value.hint == "make a new one with: numamirror bench"


def test_options_of_plan_behind_two_dashes_are_the_engines(model: Path, two_nodes: Path) -> None:
    found = document("--root", two_nodes, model, "--", "--home", "1")
    assert found["not_considered"] == ["--home 1"]


def test_a_bench_of_another_machine_is_said_to_have_no_figures(
    model: Path, four_nodes: Path, tmp_path: Path
) -> None:
    """It was called not measured, beside the name of the bench that was given."""
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(to_json(result(4))))
    found = document("--root", four_nodes, "--bench", file, model)
    assert strategies(found)["mirror node"]["tokens_per_second"]
    file.write_text(json.dumps(to_json(result(2))))
    notes = document("--root", four_nodes, "--bench", file, model)["notes"]
    assert any("it has no figures for all of nodes 0-3" in note["why"] for note in notes)
    assert not any("it was not measured here" in note["why"] for note in notes)


def test_a_name_from_the_file_cannot_steer_the_terminal(tmp_path: Path, two_nodes: Path) -> None:
    evil = write_gguf(tmp_path / "evil.gguf", arch="ev\x1b[2Jil")
    assert "\x1b" not in plan("--root", two_nodes, evil).stdout
