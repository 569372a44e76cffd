"""A node that is too full for a replica: no copy may spill to another node and be called local."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from . import steps
from .catalogue import TWO_NODES
from .conftest import Boot, Model
from .observed import nodes_of
from .vm import Node, Result

MIB = 1 << 20
SMALL_NODE = replace(TWO_NODES, nodes=(Node(memory_mib=384), Node()))
# Files in memory of node 0 alone, as much as leaves some MiB: the kernel cannot drop those, though
# it counts them among the node's file pages.
FILL = """
echo 3 > /proc/sys/vm/drop_caches
mkdir -p /run/full && mount -t tmpfs -o mpol=bind:0 tmpfs /run/full
free=$(awk '/MemFree/ {{ print int($4 / 1024) }}' /sys/devices/system/node/node0/meminfo)
head -c $((free - {left}))M /dev/zero > /run/full/ballast
"""
EMPTY = "umount /run/full"


@pytest.fixture(scope="module")
def results(boot_guest: Boot, model: Model) -> dict[str, Result]:
    path = model("small-moe-Q8_0")
    return boot_guest(
        SMALL_NODE,
        [
            steps.shell("fill half", FILL.format(left=30)),
            steps.observed_run("half", path),
            steps.shell("empty", EMPTY),
            steps.shell("fill all", FILL.format(left=14)),
            steps.observed_run("all", path),
            steps.shell("empty again", EMPTY),
            steps.plain_run("plain", path, threads=2),
        ],
    )


@pytest.fixture(params=["half", "all"])
def seen(request: pytest.FixtureRequest, results: dict[str, Result]) -> Any:
    filled = results[f"fill {request.param}"]
    assert filled.code == 0, filled
    return results[request.param].json()


def test_no_page_of_a_replica_lies_on_the_other_node(seen: Any) -> None:
    for arena in seen["replicas"]:
        assert nodes_of(arena["pages"]) <= {0}


def test_what_is_short_is_said_in_numbers(seen: Any) -> None:
    short = re.search(r"node 0 leaves (\d+) MiB for a replica of (\d+) MiB", seen["stderr"])
    assert short is not None, seen["stderr"]
    assert int(short[1]) < int(short[2])


def test_what_is_not_mirrored_is_not_called_mirrored(seen: Any) -> None:
    mirror = seen["inspect"]["mirror"]
    assert (
        mirror["mirrored_bytes"] + mirror["refused_bytes"] + mirror["small_bytes"]
        == (mirror["gemm_bytes"])
    )
    assert mirror["refused_bytes"] > 0
    assert mirror["coverage"] < 0.9
    assert not seen["inspect"]["verdict"][0]["text"].startswith("mirrored")


def test_as_much_as_fits_is_mirrored(results: dict[str, Result]) -> None:
    assert results["half"].json()["inspect"]["mirror"]["mirrored_bytes"] > 5 * MIB


def test_the_output_is_that_of_the_run_without_us(seen: Any, results: dict[str, Result]) -> None:
    assert seen["exit"] == 0
    assert seen["line"] == results["plain"].json()
