"""What mirror and shard give on two nodes: whose node the weights are read from, at what cost."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from . import steps
from .catalogue import TWO_NODES
from .conftest import Boot, Model
from .missing import Missing
from .observed import nodes_of
from .vm import Result, Step
from .weight_pages import local_share

# Mapped from the file; repacked into anonymous memory, of experts and of one matrix.
MAPPED, MANY_EXPERTS, WIDE = "tiny-moe-Q8_0", "many-moe-Q4_0", "wide-dense-Q4_0"
ALL_WEIGHTS = ("--min-size", "1")
SHARD = ("--strategy", "shard", *ALL_WEIGHTS)
MIRROR = ("--strategy", "mirror", *ALL_WEIGHTS)
NONE = ("--strategy", "none")

HUGE_PAGES = "echo {} > /sys/kernel/mm/transparent_hugepage/enabled"
# With huge pages in every heap, two runs of one program differ by several MiB.
ONLY_WHERE_ASKED, NONE_AT_ALL = HUGE_PAGES.format("madvise"), HUGE_PAGES.format("never")
WITH_EXT4 = replace(TWO_NODES, modules=("loop", "crc32c_generic", "ext4"))
EXT4 = Path("/run/ext4")


@pytest.fixture(scope="module")
def results(boot_guest: Boot, model: Model, matrices: Path, ext4: Path) -> dict[str, Result]:
    mapped, many, wide = map(model, (MAPPED, MANY_EXPERTS, WIDE))
    rows = ("--matrices", str(matrices))
    on_tmpfs, on_ext4 = Path("/run/model.gguf"), EXT4 / mapped.name
    sharded = steps.strategy_run("shard", on_ext4, "--inspect", *rows, *SHARD)
    # Two threads for each node, and the engine would have every other one on it.
    bound_anew = steps.strategy_run(
        "shard, bound anew", on_tmpfs, *rows, *SHARD, numa="distribute", threads=4
    )
    return boot_guest(
        WITH_EXT4,
        [
            steps.shell("huge pages", ONLY_WHERE_ASKED),
            after(mount(ext4), sharded),
            after(f"cp {mapped} {on_tmpfs}", bound_anew),
            steps.strategy_run("many experts, shard", many, *SHARD),
            steps.plain_run("many experts, plain", many, threads=2),
            steps.page_cache_on_node("warmed on the wrong node", 0, mapped),
            steps.strategy_run("mirror", mapped, "--hold", *MIRROR),
            steps.page_cache_on_node("warmed on the wrong node again", 0, mapped),
            steps.strategy_run("mirror, left", mapped, "--hold", *MIRROR, "--no-heal"),
            steps.strategy_run("its own, warm", mapped, *rows, *NONE, numa="distribute"),
            steps.strategy_run("nothing", mapped, *rows, *NONE),
            steps.strategy_run("shard in company", mapped, "--company", *rows, *SHARD),
            steps.drop_caches("cold"),
            steps.strategy_run("its own, cold", mapped, *rows, *NONE, numa="distribute"),
            steps.strategy_run("wide", wide, *SHARD),
            after(NONE_AT_ALL, steps.strategy_run("wide, small pages", wide, *SHARD)),
        ],
    )


def after(script: str, step: Step) -> Step:
    return replace(step, command=("sh", "-c", f'{script} && exec "$@"', "sh", *step.command))


def mount(image: Path) -> str:
    return f"mkdir {EXT4} && mount -t ext4 -o ro,loop {image} {EXT4}"


@pytest.fixture(scope="module")
def ext4(tmp_path_factory: pytest.TempPathFactory, model: Model) -> Path:
    """An image of a file system with the mapped model in it."""
    image, content = tmp_path_factory.mktemp("ext4") / "image", tmp_path_factory.mktemp("content")
    mke2fs = shutil.which("mke2fs", path="/usr/sbin:/sbin:/usr/bin")
    if mke2fs is None:
        pytest.skip(str(Missing("mke2fs", "apt-get install e2fsprogs")))
    shutil.copy(model(MAPPED), content)
    subprocess.run([mke2fs, "-q", "-t", "ext4", "-d", content, image, "64M"], check=True)
    return image


@pytest.fixture(scope="module")
def matrices(matrices_of: Callable[[str], Path]) -> Path:
    return matrices_of(MAPPED)


def seen(results: dict[str, Result], name: str) -> Any:
    return results[name].json()


def shim_event(strategy: Any, name: str) -> Any:
    """The last event of that name, as the shim printed it. The engine writes a line of its log in
    several parts: the shim's may begin in the middle of one."""
    mark = f'"event":"{name}"'
    lines = [line for line in strategy["stderr"].splitlines() if mark in line]
    return json.loads(lines[-1].partition("numamirror: ")[2])


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("shard", "nothing"),
        ("shard, bound anew", "nothing"),
        ("shard in company", "nothing"),
        ("mirror", "nothing"),
        ("mirror, left", "nothing"),
        ("its own, warm", "nothing"),
        ("its own, cold", "nothing"),
        ("wide", "wide, small pages"),
    ],
)
def test_the_output_is_the_same_whatever_the_strategy(
    results: dict[str, Result], name: str, plain: str
) -> None:
    strategy = seen(results, name)
    assert strategy["first"] == strategy["last"] == seen(results, plain)["first"]
    assert strategy["exit"] == 0


def test_the_output_of_repacked_experts_is_the_same_as_without_us(
    results: dict[str, Result],
) -> None:
    shard = seen(results, "many experts, shard")
    assert shard["first"] == shard["last"] == seen(results, "many experts, plain")


@pytest.mark.parametrize("name", ["shard", "shard, bound anew"])
def test_shard_reads_a_model_on_ext4_and_on_tmpfs_locally_at_one_copy(
    results: dict[str, Result], name: str
) -> None:
    shard = seen(results, name)
    assert shard["state"] == "sharded"
    assert shard["locality"] >= 0.98
    assert shard["rows"]["absent"] == 0
    assert local_share(shard["rows"]) >= 0.98  # by the kernel, without any code of ours


def test_threads_that_the_engine_binds_elsewhere_are_bound_back_and_the_run_says_so(
    results: dict[str, Result],
) -> None:
    anew = seen(results, "shard, bound anew")
    assert "binds the engine's threads anew" in anew["stderr"]
    assert "binds the engine's threads anew" not in seen(results, "shard")["stderr"]


def test_the_engines_own_distribute_is_local_from_a_cold_page_cache_only(
    results: dict[str, Result],
) -> None:
    warm, cold = (seen(results, f"its own, {cache}") for cache in ("warm", "cold"))
    assert local_share(warm["rows"]) == pytest.approx(0.5, abs=0.05)
    assert local_share(cold["rows"]) > 0.9
    assert cold["rows"]["absent"] > 0  # experts that no token has asked for yet are still to come


def test_pages_that_another_process_maps_stay_and_the_run_says_why(
    results: dict[str, Result],
) -> None:
    company = seen(results, "shard in company")
    assert local_share(company["rows"]) == pytest.approx(0.5, abs=0.05)
    assert "other processes map the same file" in company["stderr"]


def test_shard_needs_no_second_copy_where_a_mirror_does(results: dict[str, Result]) -> None:
    shard, mirror = seen(results, "shard"), seen(results, "mirror")
    further = mirror["memory"]["resident"] - shard["memory"]["resident"]
    assert further > 0.8 * shard["weights"]


@pytest.mark.parametrize("name", ["shard", "shard, bound anew"])
def test_shard_takes_no_memory_that_the_program_alone_would_not(
    results: dict[str, Result], name: str
) -> None:
    alone, shard = (seen(results, run)["memory"]["resident"] for run in ("nothing", name))
    assert shard <= 1.02 * alone


def test_large_repacked_weights_have_huge_pages_and_are_read_locally(
    results: dict[str, Result],
) -> None:
    wide, small = seen(results, "wide"), seen(results, "wide, small pages")
    # Of 9.4 MiB, in two halves that begin anywhere.
    assert wide["memory"]["huge"] >= shim_event(wide, "placed")["huge_bytes"] >= 4 << 20
    assert shim_event(small, "placed")["huge_bytes"] == small["memory"]["huge"] == 0
    assert wide["locality"] >= 0.95
    assert small["locality"] >= 0.95


def test_shard_reads_repacked_weights_locally(results: dict[str, Result]) -> None:
    assert seen(results, "many experts, shard")["locality"] >= 0.95


def test_without_a_strategy_half_of_the_rows_lie_with_their_readers(
    results: dict[str, Result],
) -> None:
    assert local_share(seen(results, "nothing")["rows"]) == pytest.approx(0.5, abs=0.05)


def test_the_rows_that_shard_placed_are_read_by_their_owners(results: dict[str, Result]) -> None:
    owners = shim_event(seen(results, "shard"), "owners")
    assert owners["rows"] > 1000
    assert owners["by_owner"] >= 0.98 * owners["rows"]


def test_inspect_shows_a_shard_as_such_with_its_rows_by_node(results: dict[str, Result]) -> None:
    shown = seen(results, "shard")["inspect"]
    nodes = shown["mirror"]["nodes"]
    assert shown["mirror"]["state"] == "sharded"
    assert {node: shard["role"] for node, shard in nodes.items()} == {"0": "shard", "1": "shard"}
    assert all(shard["sampled_local"] >= 0.98 * shard["sampled_pages"] for shard in nodes.values())
    assert sum(shard["bytes"] for shard in nodes.values()) >= shown["mirror"]["sharded_bytes"]
    assert shown["verdict"][0]["text"].startswith("sharded: ")
    assert "locality" in shown["verdict"][0]["text"]


def test_page_cache_on_the_wrong_node_is_brought_home(results: dict[str, Result]) -> None:
    mirror = seen(results, "mirror")
    assert (
        "0 of 512 sampled pages on node 1 before moving them, 512 of 512 after"
        in (mirror["stderr"])
    )
    assert mirror["locality"] == 1.0
    assert mirror["copies"] == [["replica", 512, 512], ["primary", 512, 512]]
    # Before, as it is where nothing is moved, and after: by the kernel, without any code of ours.
    before, after = (seen(results, name)["pages"] for name in ("mirror, left", "mirror"))
    assert nodes_of(before) == {0}
    assert after["1"] > 0.9 * sum(after.values())  # what GEMM does not read stays


def test_a_primary_left_on_the_wrong_node_gives_home_a_replica(results: dict[str, Result]) -> None:
    left = seen(results, "mirror, left")
    assert "before moving them" not in left["stderr"]
    assert "the home node gets a replica of its own" in left["stderr"]
    assert left["copies"] == [["replica", 512, 512], ["replica", 512, 512]]
    assert left["locality"] == 1.0
