"""Which strategy is chosen, why, and what would change it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from numamirror_cli.plan.bandwidth import Bandwidth, bandwidth_by_hand
from numamirror_cli.plan.strategy import Situation, Strategy, choose_strategy, ram_for

GIB = 2**30
# Two nodes of 32 cores and 240 GiB free; 60 GiB of model.
TWO_NODES = Situation(
    cores={0: 32, 1: 32},
    there={0: 240 * GIB, 1: 240 * GIB},
    home=0,
    primary=60 * GIB,
    replica=58 * GIB,
    partial_coverage=1.0,
)
FIGURES = bandwidth_by_hand("local=137,remote=47.7", (0, 1))
# 10 GB/s a thread: 14 threads use all of a node's bandwidth.
WITH_THREADS = Bandwidth(
    FIGURES.read, "a bench", {pair: 10.0 if pair[0] == pair[1] else 6.0 for pair in FIGURES.read}
)


def choose(**facts: Any) -> Strategy:
    return choose_strategy(replace(TWO_NODES, **facts))


def test_copies_that_fit_are_made() -> None:
    chosen = choose()
    assert chosen.name == "mirror"
    assert "nodes 0-1" in chosen.because


def test_few_threads_stay_on_the_node_that_holds_the_model() -> None:
    chosen = choose(threads=32)
    assert chosen.name == "bind"
    assert chosen.would_change == "more than 32 threads"
    assert choose(threads=33).name == "mirror"


def test_few_threads_do_not_bind_a_model_that_does_not_fit() -> None:
    assert choose(threads=8, primary=250 * GIB).name == "mirror"


def test_what_fits_in_part_is_mirrored_in_part() -> None:
    chosen = choose(there={0: 240 * GIB, 1: 20 * GIB}, partial_coverage=0.4)
    assert chosen.name == "mirror"
    assert "40 %" in chosen.because


EVERYTHING = frozenset(("mirror", "shard", "prefer", "interleave", "bind", "none"))
# 20 GiB free beside the 120 that the model takes on node 0: two thirds of a copy would not fit.
TIGHT: dict[str, Any] = {
    "there": {0: 240 * GIB, 1: 40 * GIB},
    "partial_coverage": 0.6,
    "possible": EVERYTHING,
}


@pytest.mark.parametrize("figures", [None, FIGURES])
def test_where_copies_do_not_fit_rows_are_placed_with_their_readers(
    figures: Bandwidth | None,
) -> None:
    chosen = choose(**TIGHT, bandwidth=figures)
    assert chosen.name == "shard"
    assert chosen.would_change


@pytest.mark.parametrize("figures", [None, FIGURES])
def test_where_copies_fit_threads_are_not_held_to_rows(figures: Bandwidth | None) -> None:
    assert choose(possible=EVERYTHING, bandwidth=figures).name == "mirror"


def test_a_part_that_serves_nearly_all_reads_is_mirrored_rather_than_sharded() -> None:
    assert choose(**{**TIGHT, "partial_coverage": 0.95}).name == "mirror"
    assert choose(**{**TIGHT, "partial_coverage": 0.85}).name == "shard"
    assert choose(**{**TIGHT, "partial_coverage": 0.97}, bandwidth=FIGURES).name == "mirror"


def test_rows_are_not_placed_for_threads_that_the_nodes_do_not_divide() -> None:
    assert choose(**TIGHT, threads=62).name == "shard"
    assert choose(**TIGHT, threads=63).name == "mirror"
    assert choose(**TIGHT, threads=63).because.startswith("a part that serves 60 %")


def test_without_room_for_a_copy_the_home_is_preferred() -> None:
    chosen = choose(there={0: 240 * GIB, 1: 0}, partial_coverage=0.0)
    assert chosen.name == "prefer"
    assert "no room" in chosen.because


def test_one_node_and_refused_policies_need_no_strategy() -> None:
    assert choose(cores={0: 32}, there={0: 240 * GIB}).name == "none"
    refused = choose(refused="get_mempolicy, set_mempolicy, mbind")
    assert refused.name == "none"
    assert "set_mempolicy" in refused.because
    assert "--strategy mirror" in refused.would_change


def test_an_unknown_model_is_mirrored_as_far_as_it_turns_out_to_fit() -> None:
    chosen = choose(primary=None, replica=None)
    assert chosen.name == "mirror"
    assert "-m" in chosen.would_change


def test_measured_figures_decide_where_there_are_some() -> None:
    chosen = choose(bandwidth=FIGURES)
    assert chosen.name == "mirror"
    assert "times the speed of prefer" in chosen.because
    assert FIGURES.source in chosen.because


def test_on_a_machine_whose_memory_is_equally_far_nothing_is_copied() -> None:
    """A mirror still doubles the memories that answer, but interleaving does so at one copy."""
    even = bandwidth_by_hand("local=100,remote=100", (0, 1))
    everything = frozenset(("mirror", "prefer", "interleave", "bind", "none"))
    assert choose(bandwidth=even, possible=everything).name == "interleave"


def test_threads_that_one_node_can_feed_are_bound_and_more_are_mirrored() -> None:
    """6 threads ask for 60 of 137 GB/s: a second memory adds nothing. 24 ask for 240."""
    assert choose(bandwidth=WITH_THREADS, threads=6).name == "bind"
    assert choose(bandwidth=WITH_THREADS, threads=24).name == "mirror"


def test_what_is_not_certainly_faster_is_not_paid_for() -> None:
    chosen = choose(bandwidth=WITH_THREADS, threads=6)
    assert chosen.name == "bind"
    assert "no certain gain" in chosen.because
    assert "certain to be above 5 %" in chosen.would_change


def test_figures_of_another_number_of_nodes_are_not_used() -> None:
    assert "copy fits" in choose(bandwidth=bandwidth_by_hand("local=9,remote=3", (0,))).because


def test_a_mirror_that_hardly_covers_anything_is_not_worth_it() -> None:
    there = {0: 240 * GIB, 1: GIB}
    assert choose(bandwidth=FIGURES, there=there, partial_coverage=0.02).name == "prefer"


def test_what_cannot_be_carried_out_is_not_chosen() -> None:
    assert choose(possible=frozenset(("prefer", "none"))).name == "prefer"
    assert choose(possible=frozenset(("mirror", "prefer")), threads=8).name == "mirror"


@pytest.mark.parametrize("free", [0, 10, 59, 61, 121, 300])
@pytest.mark.parametrize("other", [0, 10, 59, 300])
@pytest.mark.parametrize("threads", [None, 8, 64])
@pytest.mark.parametrize("figures", [None, FIGURES, WITH_THREADS])
def test_nothing_is_chosen_that_needs_more_than_is_free(
    free: int, other: int, threads: int | None, figures: Bandwidth | None
) -> None:
    """A mirror may be chosen in part: the shim copies what fits."""
    situation = replace(
        TWO_NODES,
        there={0: free * GIB, 1: other * GIB},
        partial_coverage=min(1.0, max(0, other - max(0, 60 - free)) / 58),
        threads=threads,
        bandwidth=figures,
    )
    chosen = choose_strategy(situation)
    if chosen.name == "mirror":
        assert ram_for("mirror", situation).fits or situation.partial_coverage > 0
    elif chosen.name != "none":
        assert ram_for(chosen.name, situation).fits
