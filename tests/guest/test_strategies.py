"""What each strategy gives on two nodes: whose node the weights are read from, and at what cost."""

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


def strategy(
    name: str, model: Path, manner: str, *options: str, before: tuple[str, ...] = ()
) -> Step:
    script = [sys.executable, str(HERE / "strategy_run.py"), str(model), manner]
    return Step(name, (*before, *script, *ALL_WEIGHTS, *options), limit=240)


@pytest.fixture(scope="module")
def results(boot_guest: Boot, model: Model) -> dict[str, Result]:
    mapped, repacked = model(MAPPED), model(REPACKED)
    observe = ("--observe",)
    bound, spread = ("numactl", "--membind=0"), ("numactl", "--interleave=all")
    warm = f"{DROP_CACHES}; exec numactl --cpunodebind=0 --membind=0 cat {mapped} > /dev/null"
    return boot_guest(
        TWO_NODES,
        [
            steps.shell("cold", DROP_CACHES),
            strategy("nothing", mapped, "hold", *observe, before=bound),
            steps.shell("cold again", DROP_CACHES),
            strategy("interleave", mapped, "hold", *observe, before=spread),
            steps.shell("cold for shard", DROP_CACHES),
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
        ("nothing", "plain"),
        ("interleave", "plain"),
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


@pytest.mark.parametrize("name", ["nothing", "interleave"])
def test_without_a_strategy_half_of_the_reads_are_remote(
    results: dict[str, Result], name: str
) -> None:
    assert seen(results, name)["state"] == "observed"
    assert seen(results, name)["locality"] == pytest.approx(0.5, abs=0.08)


def test_shard_reads_a_mapped_model_locally_at_one_copy(results: dict[str, Result]) -> None:
    shard = seen(results, "shard")
    assert shard["state"] == "sharded"
    assert shard["locality"] >= 0.98
    assert shard["resident"] < 1.02 * seen(results, "interleave")["resident"]


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
