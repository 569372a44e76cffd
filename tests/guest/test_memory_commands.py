"""`cache` and `inspect` on a two-node kernel, each figure against the kernel's own answer."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from .catalogue import TWO_NODES
from .conftest import Boot
from .vm import Step

HERE = Path(__file__).parent
PAGE = 4096
SIZE = 24 << 20


@pytest.fixture(scope="module")
def seen(boot_guest: Boot, tmp_path_factory: pytest.TempPathFactory) -> Any:
    if shutil.which("numactl") is None:
        pytest.skip("numactl and migratepages are missing: apt-get install numactl")
    model = tmp_path_factory.mktemp("models") / "made-up.gguf"
    model.write_bytes(os.urandom(SIZE))
    command = (sys.executable, str(HERE / "observe_memory.py"), str(model))
    return boot_guest(TWO_NODES, [Step("memory", command, limit=1200)])["memory"].json()


def pages(byte_count: int) -> int:
    return -(-byte_count // PAGE)


def test_evict_empties_the_cache(seen: Any) -> None:
    assert seen["evicted"]["cached_bytes"] == 0
    assert seen["evicted, kernel"] == {}
    assert seen["evicted"]["exit"] == 0


@pytest.mark.parametrize("node", ["0", "1"])
def test_warm_puts_the_whole_model_on_the_wanted_node(seen: Any, node: str) -> None:
    assert seen[f"warm {node}, kernel"] == {node: pages(SIZE)}
    assert seen[f"warm {node}"]["nodes"] == {node: SIZE}
    assert (seen[f"warm {node}"]["stderr"], seen[f"warm {node}"]["exit"]) == ("", 0)


def test_warm_drops_what_lies_elsewhere_first(seen: Any) -> None:
    assert seen["warm 0"]["evicted_bytes"] == SIZE


def test_interleave_spreads_it_evenly(seen: Any) -> None:
    by_kernel = seen["warm interleave, kernel"]
    assert sum(by_kernel.values()) == pages(SIZE)
    assert min(by_kernel["0"], by_kernel["1"]) > 0.4 * pages(SIZE)
    told = seen["warm interleave"]["nodes"]
    assert {node: pages(count) for node, count in told.items()} == by_kernel


def test_who_has_it_mapped_is_named_when_it_can_not_be_dropped(seen: Any) -> None:
    kept = seen["evict while mapped"]
    assert kept["cached_bytes"] == SIZE
    assert [process["pid"] for process in kept["mapped_by"]] == [seen["reader"]]
    assert f"stay in the page cache: mapped by {seen['reader']} (" in kept["stderr"]
    assert kept["exit"] == 1


def test_a_bound_process_that_reads_the_cache_of_the_other_node_is_told(seen: Any) -> None:
    assert seen["remote"]["policy"] == "bind:0"
    assert seen["remote"]["weights"]["bytes"] == {"1": SIZE}
    worst = seen["remote"]["verdict"][0]
    assert worst["level"] == "bad"
    assert "on node 1, threads on node 0: remote" in worst["text"]
    assert "bind:0 does not move cached pages" in worst["text"]


def test_settled_is_said_when_growth_has_ended_and_not_before(seen: Any) -> None:
    said = seen["settled"]["stderr"]
    assert said.startswith("numamirror: settled after ")
    placed = seen["settled"]["placement_bytes"]
    assert sum(sum(rows.values()) for rows in placed.values()) > 80 << 20


def test_watch_shows_pages_that_move(seen: Any) -> None:
    moved = seen["watched"]
    assert moved["before"]["0"] > 32 << 20
    assert moved["after"]["1"] > 32 << 20
    assert moved["kernel"]["1"] * PAGE > 32 << 20
