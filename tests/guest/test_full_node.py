"""A node that is too full for a replica: no copy may spill to another node and be called local."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from . import steps
from .catalogue import TWO_NODES
from .conftest import Boot, Model
from .observed import PAGE_BYTES, nodes_of, replicas_by_policy
from .vm import Node, Result

MIB = 1 << 20
# The libraries of our commands and of the engine take up to 20 MiB of either node, as luck has it:
# what a test asks for holds with and without them.
SMALL_NODE = replace(TWO_NODES, nodes=(Node(memory_mib=640), Node()))
# Files in memory of node 0 alone, until some MiB are left: the kernel cannot drop those, though it
# counts them among the node's file pages.
FILL = """
echo 3 > /proc/sys/vm/drop_caches
mkdir -p /run/full && mount -t tmpfs -o mpol=bind:0 tmpfs /run/full
free() {{ awk '/MemFree/ {{ print int($4 / 1024) }}' /sys/devices/system/node/node0/meminfo; }}
head -c $(($(free) - {left} - 8))M /dev/zero > /run/full/ballast
while [ $(free) -gt {left} ]; do head -c 1M /dev/zero >> /run/full/ballast; done
"""
EMPTY = "umount /run/full"
# Clean page cache, as every server that has run for long is full of.
READ = "numactl --membind=0 cat {file} > /dev/null && cat /sys/devices/system/node/node0/meminfo"
# A full node has room for small pages; whether for a huge one too is luck.
PAGES_AS_TOUCHED = "echo never > /sys/kernel/mm/transparent_hugepage/enabled"
# Page cache that the kernel counts as free for the asking, and which is not.
KEEP = """
numactl --membind=0 {python} {script} {file} 60 > /run/kept &
for second in $(seq 600); do grep -q up /run/kept && break; sleep 1; done
grep -q up /run/kept && awk '/FilePages/ {{ print $4 }}' /sys/devices/system/node/node0/meminfo
"""


def keep(file: Path) -> str:
    script = Path(__file__).parent / "in_flight.py"
    return KEEP.format(python=sys.executable, script=script, file=file)


@pytest.fixture(scope="module")
def results(boot_guest: Boot, model: Model) -> dict[str, Result]:
    path, twice_as_large = model("small-moe-Q8_0"), model("small-moe-F16")
    return boot_guest(
        SMALL_NODE,
        [
            steps.shell("small pages", PAGES_AS_TOUCHED),
            steps.shell("fill half", FILL.format(left=76)),
            steps.observed_run("half", twice_as_large, reads=False),
            steps.shell("empty", EMPTY),
            steps.shell("fill all", FILL.format(left=24)),
            steps.observed_run("all", path, reads=False),
            steps.shell("empty again", EMPTY),
            steps.shell("fill some", FILL.format(left=104)),
            steps.shell("read", READ.format(file=twice_as_large)),
            steps.observed_run("cached", path, reads=False),
            steps.shell("empty once more", EMPTY),
            steps.shell("keep", keep(twice_as_large)),
            steps.shell("fill what is free", FILL.format(left=30)),
            steps.observed_run("spilled", path, reads=False),
            steps.shell("empty at last", EMPTY),
            steps.plain_run("plain half", twice_as_large, threads=2),
            steps.plain_run("plain all", path, threads=2),
        ],
    )


@pytest.fixture(params=["half", "all"])
def room(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def seen(room: str, results: dict[str, Result]) -> Any:
    filled = results[f"fill {room}"]
    assert filled.code == 0, filled
    return results[room].json()


def test_what_is_short_is_said_in_numbers(seen: Any) -> None:
    short = re.search(r"node 0 leaves (\d+) MiB for a replica of (\d+) MiB", seen["stderr"])
    assert short is not None, seen["stderr"]
    assert int(short[1]) < int(short[2])


def test_as_much_as_fits_is_mirrored_on_its_node(results: dict[str, Result]) -> None:
    seen = results["half"].json()
    assert set(replicas_by_policy(seen)) == {"prefer:0"}
    here, there = pages_on_both(seen)
    assert here > 0.95 * (here + there)  # the last pages of a full node go to the next
    assert seen["inspect"]["mirror"]["mirrored_bytes"] > 20 * MIB


def pages_on_both(seen: Any) -> tuple[int, int]:
    """Of all replicas, on node 0 and on node 1, by the kernel's word."""
    pages = [arena["pages"] for arena in seen["replicas"]]
    here, there = (sum(counts.get(node, 0) for counts in pages) for node in "01")
    return here, there


def test_a_replica_that_spilled_to_the_other_node_is_dropped_or_its_share_is_told(
    seen: Any,
) -> None:
    here, there = pages_on_both(seen)
    assert there <= here / 9  # the shim drops what is not mostly on its node
    if there:
        assert seen["inspect"]["verdict"][0]["level"] == "bad"
        told = re.search(r"([\d.]+) % of \d+\s+sampled pages on\s+node 0", seen["stderr"])
        assert told is not None, seen["stderr"]
        # So few that a sample can miss them all, or the share that it found.
        assert there < here / 50 or float(told[1]) < 100


def test_a_replica_that_landed_on_the_other_node_for_want_of_room_is_dropped(
    results: dict[str, Result],
) -> None:
    assert results["keep"].code == 0, results["keep"]
    seen = results["spilled"].json()
    landed = re.search(r"node 0: only (\d+) of (\d+) sampled pages of the replica", seen["stderr"])
    assert landed is not None, seen["stderr"]
    assert int(landed[1]) < 0.9 * int(landed[2])
    assert "the replica was dropped" in seen["stderr"]
    assert not any(nodes_of(arena["pages"]) for arena in seen["replicas"])
    assert seen["status"]["mirrored_bytes"] == 0
    for sentence in seen["inspect"]["verdict"] + seen["run"]["verdict"]:
        assert not sentence["text"].startswith("mirrored")


def test_page_cache_makes_room_for_a_replica(results: dict[str, Result]) -> None:
    assert results["fill some"].code == 0, results["fill some"]
    free = re.search(r"MemFree: *(\d+) kB", results["read"].stdout)
    assert free is not None, results["read"]
    seen = results["cached"].json()
    mirrored = seen["inspect"]["mirror"]["mirrored_bytes"]
    assert mirrored > 30 * MIB > 1024 * int(free[1])
    here, there = pages_on_both(seen)
    assert here * PAGE_BYTES >= 0.95 * mirrored
    assert there <= here / 20
    assert seen["line"] == results["plain all"].json()


def test_what_is_not_mirrored_is_not_called_mirrored(seen: Any) -> None:
    mirror = seen["inspect"]["mirror"]
    not_mirrored = mirror["refused_bytes"] + mirror["small_bytes"]
    assert mirror["mirrored_bytes"] + not_mirrored == mirror["gemm_bytes"]
    assert mirror["refused_bytes"] > 0
    assert mirror["coverage"] < 0.9
    for sentence in seen["inspect"]["verdict"] + seen["run"]["verdict"]:
        assert not sentence["text"].startswith("mirrored")


def test_the_output_is_that_of_the_run_without_us(
    room: str, seen: Any, results: dict[str, Result]
) -> None:
    assert seen["exit"] == 0
    assert seen["line"] == results[f"plain {room}"].json()


def test_the_output_is_the_same_after_a_replica_was_dropped(results: dict[str, Result]) -> None:
    assert results["spilled"].json()["line"] == results["plain all"].json()
