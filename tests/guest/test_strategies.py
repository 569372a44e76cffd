"""What mirror and shard give on two nodes: whose node the weights are read from, at what cost."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from . import steps
from .catalogue import TWO_NODES
from .conftest import Boot, Model
from .vm import Result, Step

HERE = Path(__file__).parent
DROP_CACHES = "sync; echo 3 > /proc/sys/vm/drop_caches"
MAPPED, REPACKED = "tiny-moe-Q8_0", "tiny-moe-Q4_0"
ALL_WEIGHTS = ("--min-size", "1")


def strategy(name: str, model: Path, manner: str, *options: str) -> Step:
    script = [sys.executable, str(HERE / "strategy_run.py"), str(model), manner]
    return Step(name, (*script, *ALL_WEIGHTS, *options), limit=240)


@pytest.fixture(scope="module")
def results(boot_guest: Boot, model: Model) -> dict[str, Result]:
    mapped, repacked = model(MAPPED), model(REPACKED)
    warm = f"{DROP_CACHES}; exec numactl --cpunodebind=0 --membind=0 cat {mapped} > /dev/null"
    return boot_guest(
        TWO_NODES,
        [
            steps.shell("cold", DROP_CACHES),
            strategy("shard", mapped, "free", "--strategy", "shard"),
            strategy("shard, repacked", repacked, "free", "--strategy", "shard"),
            steps.shell("warmed on the wrong node", warm),
            strategy("mirror", mapped, "hold", "--strategy", "mirror"),
            steps.shell("warmed on the wrong node again", warm),
            strategy("mirror, left", mapped, "hold", "--strategy", "mirror", "--no-heal"),
            steps.plain_run("plain", mapped, threads=2),
            steps.plain_run("plain, repacked", repacked, threads=2),
        ],
    )


def seen(results: dict[str, Result], name: str) -> Any:
    return results[name].json()


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("shard", "plain"),
        ("shard, repacked", "plain, repacked"),
        ("mirror", "plain"),
        ("mirror, left", "plain"),
    ],
)
def test_the_output_is_the_same_whatever_the_strategy(
    results: dict[str, Result], name: str, plain: str
) -> None:
    assert seen(results, name)["first"] == results[plain].json()
    assert seen(results, name)["last"] == results[plain].json()
    assert seen(results, name)["exit"] == 0


def test_shard_reads_a_mapped_model_locally_at_one_copy(results: dict[str, Result]) -> None:
    shard = seen(results, "shard")
    assert shard["state"] == "sharded"
    assert shard["locality"] >= 0.98


def test_shard_needs_no_second_copy_where_a_mirror_does(results: dict[str, Result]) -> None:
    shard, mirror = seen(results, "shard"), seen(results, "mirror")
    assert mirror["resident"] - shard["resident"] > 0.8 * shard["weights"]


def test_shard_reads_repacked_weights_locally(results: dict[str, Result]) -> None:
    assert seen(results, "shard, repacked")["locality"] >= 0.95


def test_the_rows_that_shard_placed_are_read_by_their_owners(results: dict[str, Result]) -> None:
    owners = [
        json.loads(line.removeprefix("numamirror: "))
        for line in seen(results, "shard")["stderr"].splitlines()
        if '"event":"owners"' in line
    ]
    assert owners[-1]["rows"] > 1000
    assert owners[-1]["by_owner"] >= 0.98 * owners[-1]["rows"]


def test_page_cache_on_the_wrong_node_is_brought_home(results: dict[str, Result]) -> None:
    mirror = seen(results, "mirror")
    assert (
        "0 of 512 sampled pages on node 1 before moving them, 512 of 512 after"
        in (mirror["stderr"])
    )
    assert mirror["locality"] == 1.0
    assert mirror["copies"] == [["replica", 512, 512], ["primary", 512, 512]]


def test_a_primary_left_on_the_wrong_node_gives_home_a_replica(results: dict[str, Result]) -> None:
    left = seen(results, "mirror, left")
    assert "before moving them" not in left["stderr"]
    assert "the home node gets a replica of its own" in left["stderr"]
    assert left["copies"] == [["replica", 512, 512], ["replica", 512, 512]]
    assert left["locality"] == 1.0
