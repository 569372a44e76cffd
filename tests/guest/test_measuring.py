"""On two nodes: what `run --observe` and `bench` say is what the kernel's page locations make of
it, and what `run --strategy` sets is what the child finds. Emulated speeds mean nothing."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from . import steps
from .catalogue import TWO_NODES
from .conftest import Boot, Model
from .vm import Result, Step

# The policy under which the engine loads its model decides where the weights lie.
POLICIES = {"all on node 0": "preferred:0", "interleaved": "interleave:0-1"}
# 2-MiB tensors: a sample in even strides would see every other page of an interleaved one.
MODEL = "tiny-moe-F16"
# What moves as a whole has 2 MiB: enough of those for an even spread. The second has many experts,
# of which few are computed with.
INTERLEAVED = {"mapped": "tiny-moe-F16", "repacked": "many-moe-Q4_0"}
REFUSED = (
    sys.executable,
    str(steps.HERE.parent / "reliability" / "refuse.py"),
    *(f"{call}=EPERM" for call in ("get_mempolicy", "set_mempolicy", "mbind")),
    "--",
)


@pytest.fixture(scope="module")
def results(boot_guest: Boot, model: Model) -> dict[str, Result]:
    orders = []
    for name, policy in POLICIES.items():
        observed = steps.observed_run(name, model(MODEL), "--observe", "--min-size", "1")
        orders += [steps.drop_caches(f"{name}, caches"), steps.under_policy(policy, observed)]
    mirrored = steps.observed_run(
        "mirrored", model(MODEL), "--strategy", "mirror", "--min-size", "1"
    )
    bench = Step("bench", (*steps.NUMAMIRROR, "bench", "--json", "--seconds", "0.1"), limit=600)
    # The arguments of an engine that one core of node 1 could serve.
    few_threads = ("-m", str(model(MODEL)), "-t", "1")
    return boot_guest(
        TWO_NODES,
        [
            *orders,
            steps.drop_caches("caches"),
            mirrored,
            what_holds("bind", "--strategy", "bind"),
            # Mapped, and in the page cache of whatever nodes the runs before left it on; repacked.
            *(interleaved(name, model(file)) for name, file in INTERLEAVED.items()),
            steps.plain_run("repacked, plain", model(INTERLEAVED["repacked"]), threads=2),
            what_holds("few threads", arguments=few_threads),
            Step("refused", (*REFUSED, *steps.NUMAMIRROR, "run", "--", "true")),
            bench,
            what_holds("few threads, measured", arguments=few_threads),
        ],
    )


def interleaved(name: str, path: Path) -> Step:
    options = ("--strategy", "interleave", "--verbose")
    return steps.observed_run(name, path, *options, "--min-size", "1", reads=name == "mapped")


def what_holds(name: str, *options: str, arguments: tuple[str, ...] = ()) -> Step:
    """`numamirror run` with a child that tells its policy and its CPUs."""
    child = (sys.executable, str(steps.HERE / "what_holds.py"), *arguments)
    return Step(name, (*steps.NUMAMIRROR, "run", *options, "--", *child))


def local_shares(seen: Any) -> dict[int, float]:
    """Of what the thread on each node read while it was held there, the local share."""
    return {
        read["node"]: read["shard_bytes"] / (read["shard_bytes"] + read["other_bytes"])
        for read in seen["reads"]
    }


def error(seen: Any) -> float:
    """The 95 % bound that is printed, for a share of one half."""
    return 1.96 * 0.5 / (64 * seen["status"]["gemm_tensors"]) ** 0.5 + 1 / 256


def test_with_all_weights_on_node_0_half_of_the_reads_are_local(results: dict[str, Result]) -> None:
    seen = results["all on node 0"].json()
    shares = local_shares(seen)
    assert shares[0] == pytest.approx(1.0, abs=error(seen))
    assert shares[1] == pytest.approx(0.0, abs=error(seen))
    assert sum(shares.values()) / 2 == pytest.approx(0.5, abs=error(seen))


def test_interleaved_weights_are_half_local_to_each_node(results: dict[str, Result]) -> None:
    seen = results["interleaved"].json()
    for share in local_shares(seen).values():
        assert share == pytest.approx(0.5, abs=error(seen))


def test_of_interleaved_weights_the_report_says_half_within_the_error_beside_it(
    results: dict[str, Result],
) -> None:
    """Wherever the threads were: of all that was read, since the start."""
    said = results["interleaved"].json()["stderr"]
    [total] = [line for line in said.splitlines() if line.startswith("all ")]
    told = re.search(r" ([\d.]+) % ± ([\d.]+) % ", total)
    assert told is not None, total
    assert float(told[1]) == pytest.approx(50, abs=float(told[2]) + 0.5)  # shown in whole per cent


def test_a_mirror_is_all_local(results: dict[str, Result]) -> None:
    for read in results["mirrored"].json()["reads"]:
        assert read["other_bytes"] == 0
        assert read["replica_bytes"] + read["home_bytes"] > 0


@pytest.mark.parametrize("name", POLICIES)
def test_nothing_is_copied_and_the_policy_is_the_callers(
    name: str, results: dict[str, Result]
) -> None:
    seen = results[name].json()
    assert seen["replicas"] == []
    assert seen["status"]["mirrored_bytes"] == 0
    assert seen["status"]["observed_bytes"] == seen["status"]["gemm_bytes"] > 0
    assert seen["run"]["plan"]["caller_policy"] == POLICIES[name]
    assert seen["run"]["plan"]["policy"] is None


@pytest.mark.parametrize("name", INTERLEAVED)
def test_interleave_spreads_the_weights_and_nothing_else(
    name: str, results: dict[str, Result]
) -> None:
    """This machine has GPUs on node 1: what they would be sent from stays there."""
    seen = results[name].json()
    pages = seen["primary"]["pages"]
    assert set(pages) == {"0", "1"}
    assert pages["0"] / sum(pages.values()) == pytest.approx(0.5, abs=0.1)
    assert seen["policy"] == "prefer:1"
    other = seen["anonymous"]["prefer:1"]
    assert sum(other.values()) > 1000
    assert other["1"] / sum(other.values()) > 0.95


def test_weights_that_interleave_spread_are_half_local_to_each_node(
    results: dict[str, Result],
) -> None:
    seen = results["mapped"].json()
    for node, share in local_shares(seen).items():
        assert share == pytest.approx(0.5, abs=0.15), node  # they have seven huge pages in all


@pytest.mark.parametrize("name", INTERLEAVED)
def test_interleave_says_by_node_where_a_sample_found_the_weights(
    name: str, results: dict[str, Result]
) -> None:
    seen = results[name].json()
    assert "interleave: of the sampled pages of weights" in seen["stderr"]
    assert seen["status"]["state"] == "interleaved"
    pages = seen["primary"]["pages"]
    for copy in seen["status"]["copies"]:
        share = pages[str(copy["node"])] / sum(pages.values())
        told = copy["bytes"] / seen["status"]["interleaved_bytes"]
        assert told == pytest.approx(share, abs=0.07)
    assert seen["inspect"]["verdict"][0]["text"].startswith("interleaved: ")


def test_interleaving_changes_no_output(results: dict[str, Result]) -> None:
    assert results["mapped"].json()["line"] == results["mirrored"].json()["line"]
    assert results["repacked"].json()["line"] == results["repacked, plain"].json()


def test_the_report_names_bytes_per_token_shares_and_strategies(results: dict[str, Result]) -> None:
    said = results["all on node 0"].json()["stderr"]
    assert "per token (" in said
    assert "±" in said
    assert "shard" in said and "interleave" in said


def test_the_report_names_the_tensors_that_were_read_from_elsewhere(
    results: dict[str, Result],
) -> None:
    """Of every kind half: both nodes' threads read all tensors, which lie on node 0."""
    seen = results["all on node 0"].json()
    assert "blk.*.ffn_gate_exps.weight" in seen["stderr"]
    groups = seen["status"]["groups"]
    assert sum(group["tensors"] for group in groups) == seen["status"]["gemm_tensors"]
    assert sum(group["bytes"] for group in groups) == seen["status"]["gemm_bytes"]
    for group in groups:
        read = group["local_bytes"] + group["other_bytes"]
        assert 0.25 < group["other_bytes"] / read < 0.75  # threads moved before they were held


def test_the_bench_reads_memory_that_lies_where_it_was_meant_to(
    results: dict[str, Result],
) -> None:
    cells = results["bench"].json()["cells"]
    assert {(cell["reader"], cell["memory"]) for cell in cells} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    for cell in cells:
        assert cell["problem"] == ""
        assert cell["sampled_there"] == cell["sampled"] == 512
        assert cell["all"]["median"] > 0


@pytest.mark.parametrize(
    ("name", "policy", "cpus"),
    [
        ("bind", "bind:1", [1]),
        ("few threads", "bind:1", [1]),
    ],
)
def test_the_child_finds_what_the_strategy_means(
    results: dict[str, Result], name: str, policy: str, cpus: list[int]
) -> None:
    assert results[name].json() == [policy, cpus]


def test_where_policy_calls_are_refused_nothing_is_chosen_and_that_is_said(
    results: dict[str, Result],
) -> None:
    """A real filter, as Docker's is without CAP_SYS_NICE, around launcher and program."""
    refused = results["refused"]
    assert refused.code == 0
    assert "strategy none: policy calls are refused here (get_mempolicy, " in refused.stderr
    assert "changed by: a container that allows them" in refused.stderr


def test_run_says_what_it_chose_why_and_what_would_change_it(results: dict[str, Result]) -> None:
    said = results["few threads"].stderr
    assert "strategy bind: the model fits node 1, which has a core for each of 1 thread" in said
    assert "changed by: more than 1 thread" in said
    assert "by the bench of" in results["few threads, measured"].stderr
