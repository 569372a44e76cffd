"""Two sockets, both GPUs on the second one: the main job, as the kernel itself sees it."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from . import steps
from .catalogue import TWO_NODES
from .conftest import Boot, Model
from .observed import PAGE_BYTES, nodes_of, pages_in_memory, replicas_by_policy
from .vm import Result, Step

# Weights mapped from the file, weights repacked into anonymous memory, and no option at all.
RUNS = {
    "mapped": ("tiny-moe-Q8_0", ("--min-size", "1")),
    "repacked": ("tiny-moe-Q4_0", ("--min-size", "1")),
    "as it comes": ("tiny-moe-F16", ()),
}
NATIVE = Path(__file__).parents[2] / "native" / "tests" / "stand_in"


@pytest.fixture(scope="module")
def uploading(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """uploads.c on the stand-in engine, built."""
    directory = tmp_path_factory.mktemp("uploads")
    library, program = directory / "libengine.so", directory / "uploads"
    engine = [file for file in NATIVE.glob("*.c") if file.name != "stand_in_rpc.c"]
    shared = ["-shared", "-fPIC", "-O1", "-fno-inline", "-fsemantic-interposition"]
    linked = [f"-L{directory}", "-l:libengine.so", f"-Wl,-rpath,{directory}", f"-I{NATIVE}"]
    for words in (
        [library, *engine, *shared],
        [program, Path(__file__).with_name("uploads.c"), *linked],
    ):
        subprocess.run(["cc", "-std=gnu11", "-o", *words], check=True)
    return program


def upload_run(program: Path, home: int) -> Step:
    """Uploads to each AMD device of the guest and to one that is not there."""
    run = shlex.join([*steps.NUMAMIRROR, "run", "--home", str(home), "--", str(program)])
    gpus = "$(cd /sys/bus/pci/devices; grep -l 0x1002 */vendor | cut -d/ -f1)"
    return steps.shell(f"uploads, home {home}", f"exec {run} {gpus} 0000:ff:1f.0")


@pytest.fixture(scope="module")
def results(boot_guest: Boot, model: Model, uploading: Path) -> dict[str, Result]:
    """Each with the model's pages fresh from disk, so that nobody else has placed them."""
    orders = [steps.topology(), *(upload_run(uploading, home) for home in (0, 1))]
    for name, (model_name, options) in RUNS.items():
        orders += [
            steps.drop_caches(f"{name}, caches"),
            steps.observed_run(name, model(model_name), *options),
            steps.plain_run(f"{name}, plain", model(model_name), threads=2),
        ]
    return boot_guest(TWO_NODES, orders)


@pytest.fixture(scope="module", params=RUNS)
def name(request: pytest.FixtureRequest) -> str:
    run_name: str = request.param
    return run_name


@pytest.fixture(scope="module")
def seen(name: str, results: dict[str, Result]) -> Any:
    return results[name].json()


def test_topology_elects_the_node_of_the_gpus_and_says_why(results: dict[str, Result]) -> None:
    machine = results["topology"].json()
    voters = [gpu["address"] for gpu in machine["gpus"] if gpu["votes"]]
    assert len(voters) == 2
    assert machine["home"]["node"] == 1
    assert machine["home"]["reason"] == f"2 of 2 GPUs are there ({', '.join(voters)})"


def test_the_board_vga_is_listed_and_does_not_vote(results: dict[str, Result]) -> None:
    vga = next(gpu for gpu in results["topology"].json()["gpus"] if gpu["vendor"] == "0x1234")
    assert not vga["votes"]
    assert "board" in vga["reason"]


def test_the_child_has_the_policy_of_the_home_node(seen: Any) -> None:
    assert seen["policy"] == "prefer:1"  # by the kernel, in the child
    assert seen["run"]["policy"] == "preferred:1"
    assert seen["inspect"]["policy"] == "preferred:1"


def test_every_page_of_the_replica_lies_on_node_0(seen: Any) -> None:
    assert replicas_by_policy(seen) == {"prefer:0": {0}}
    assert pages_in_memory(seen) * PAGE_BYTES >= seen["status"]["mirrored_bytes"] > 0


def test_every_page_of_the_primary_lies_on_node_1(seen: Any) -> None:
    assert nodes_of(seen["primary"]["pages"]) == {1}
    assert "absent" not in seen["primary"]["pages"]
    assert seen["primary"]["bytes"] == seen["status"]["mirrored_bytes"]


def test_threads_on_node_0_read_the_replica_and_those_on_node_1_the_primary(seen: Any) -> None:
    reads = {read["node"]: read for read in seen["reads"]}
    assert reads[0]["replica_bytes"] > 0
    assert reads[0]["home_bytes"] == 0
    assert reads[1]["home_bytes"] > 0
    assert reads[1]["replica_bytes"] == 0


def test_only_tensors_below_the_minimum_are_read_elsewhere(seen: Any) -> None:
    status = seen["status"]
    assert status["mirrored_bytes"] + status["small_bytes"] == status["gemm_bytes"]
    if status["small_bytes"] == 0:
        assert {read["other_bytes"] for read in seen["reads"]} == {0}


def test_the_output_is_that_of_the_run_without_us(
    name: str, seen: Any, results: dict[str, Result]
) -> None:
    plain = results[f"{name}, plain"].json()
    assert seen["line"] == plain
    assert len(set(plain["scores"])) >= 4  # sums that a wrong weight would change


def test_inspect_says_how_much_was_read_locally_where_the_kernel_has_the_copies_in_place(
    seen: Any,
) -> None:
    assert nodes_of(seen["primary"]["pages"]) == {1}
    assert replicas_by_policy(seen) == {"prefer:0": {0}}
    mirror = seen["inspect"]["mirror"]
    local = {node: copy["read_bytes"] for node, copy in mirror["nodes"].items()}
    elsewhere = sum(copy["read_elsewhere_bytes"] for copy in mirror["nodes"].values())
    assert min(local.values()) > 0
    assert sum(local.values()) + elsewhere == mirror["read_bytes"]
    share = sum(local.values()) / mirror["read_bytes"]
    assert mirror["locality"] == pytest.approx(share, abs=1e-4)


def test_inspect_tells_the_kv_cache_and_where_the_policy_has_put_it(seen: Any) -> None:
    rows = {buffer["kind"]: buffer["bytes"] for buffer in seen["inspect"]["buffers"]}
    assert set(rows["cache"]) == set(rows["compute"]) == {"1"}
    slack = 8 * PAGE_BYTES  # neighbours may share the page between them
    for kind, before in seen["scratch_before"].items():
        # khugepaged may come by in between and fill the gaps of a huge page.
        least, most = (n["1"] * PAGE_BYTES for n in (before, seen["scratch_after"][kind]))
        assert least - slack <= rows[kind]["1"] <= most + slack
        assert rows[kind]["1"] > slack


def test_inspect_counts_the_cpus_that_are_there(seen: Any) -> None:
    assert seen["inspect"]["threads"]["allowed_cpus"] == "0-1"


def test_run_says_where_home_is_what_was_copied_and_how_much_is_covered(seen: Any) -> None:
    assert "numamirror: home node 1: 2 of 2 GPUs are there" in seen["stderr"]
    assert "numamirror: node 0: replica of" in seen["stderr"]
    assert "100 % of 512 sampled pages on node 0" in seen["stderr"]
    assert "100 % of 512 sampled pages on node 1" in seen["stderr"]
    assert seen["exit"] == 0


def test_run_and_inspect_warn_of_numa_balancing_and_leave_it_alone(seen: Any) -> None:
    assert "sysctl kernel.numa_balancing=0" in seen["stderr"]
    assert seen["inspect"]["numa_balancing"] == 1
    [remedy] = [s["remedy"] for s in seen["inspect"]["verdict"] if "numa_balancing" in s["text"]]
    assert remedy == "sudo sysctl kernel.numa_balancing=0"


def test_inspect_tells_the_same_as_the_kernel(seen: Any) -> None:
    mirror = seen["inspect"]["mirror"]
    assert {node: copy["role"] for node, copy in mirror["nodes"].items()} == {
        "0": "replica",
        "1": "primary",
    }
    for copy in mirror["nodes"].values():
        assert copy["sampled_local"] == copy["sampled_pages"] > 0
    assert "mirrored: 2 copies" in seen["inspect"]["verdict"][0]["text"]


@pytest.mark.parametrize(("home", "copy"), [(0, "replica"), (1, "primary")])
def test_a_gpu_is_sent_the_copy_on_its_own_node_and_at_home_the_engines_own(
    results: dict[str, Result], home: int, copy: str
) -> None:
    sent = results[f"uploads, home {home}"].json()
    there = [gpu["address"] for gpu in results["topology"].json()["gpus"] if gpu["votes"]]
    assert [sent[address] for address in there] == [[copy, 1], [copy, 1]]
    assert sent["0000:ff:1f.0"] == ["primary", home]
