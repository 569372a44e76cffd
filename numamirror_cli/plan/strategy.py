"""Which strategy to take, and why: by the model where the machine was measured, else by rules.

Nothing is ever chosen that needs more memory than is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numamirror_cli.figures import counted, percent
from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.plan.bandwidth import Bandwidth
from numamirror_cli.plan.layout import BIND, INTERLEAVE, MIRROR, NONE, PREFER, SHARD
from numamirror_cli.plan.predict import FIXED_CPU, Range, Reader, compare
from numamirror_cli.plan.ram import Ram, ram_of

# What costs more has to be this many times as fast, also at the lower end of its range.
WORTH_IT = 1.05
# From the cheapest to the dearest. Shard takes no memory, and is last all the same: its threads are
# held to their rows, so that all wait for the slowest, and it helps decoding alone.
BY_COST = (BIND, PREFER, INTERLEAVE, MIRROR, SHARD)
# Without a bench, a mirror that serves less of the reads gives way to shard. In public figures two
# thirds of the coverage gave a quarter of the gain (docs/model.md).
PART_IS_ENOUGH = 0.9


@dataclass(frozen=True)
class Situation:
    """What the choice depends on.

    cores: of each mirror node. there: available bytes of each. primary, replica: bytes, None when
    the model is not known. coverage: share of the reads that a mirror serves when all of it fits;
    partial_coverage: when only what fits is copied. threads: of the engine, None when it takes
    all cores. refused: policy calls that the kernel, or a filter, turns down, "" when not all are.
    possible: what can be carried out.
    """

    cores: Mapping[int, int]
    there: Mapping[int, int]
    home: int
    primary: int | None = None
    replica: int | None = None
    coverage: float = 1.0
    partial_coverage: float = 0.0
    threads: int | None = None
    refused: str = ""
    possible: frozenset[str] = frozenset((MIRROR, PREFER, BIND, NONE))
    bandwidth: Bandwidth | None = None
    fixed: float = FIXED_CPU

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(self.cores)

    @property
    def all_threads(self) -> int:
        """Those of the engine; without -t, one for each core."""
        return self.threads or sum(self.cores.values())

    @property
    def few_threads(self) -> bool:
        """One node's cores are enough for all threads."""
        return self.threads is not None and self.threads <= self.cores[self.home]


@dataclass(frozen=True)
class Strategy:
    """name: mirror, shard, prefer, interleave, bind or none. because and would_change: phrases."""

    name: str
    because: str
    would_change: str


def choose_strategy(situation: Situation) -> Strategy:
    """The strategy for that situation."""
    if len(situation.nodes) < 2:
        return Strategy(NONE, "all CPUs and memory are on one node", "a machine with several nodes")
    if situation.refused:
        return Strategy(
            NONE,
            f"policy calls are refused here ({situation.refused})",
            "a container that allows them; --strategy mirror copies, and cannot say where to",
        )
    if situation.primary is None:
        return Strategy(
            MIRROR,
            "the model's size is not known, room for copies is checked when it is loaded",
            "a model file named with -m",
        )
    if situation.bandwidth is None or not situation.bandwidth.covers(situation.nodes):
        return _by_rules(situation)
    return _by_model(situation, situation.bandwidth)


def _by_rules(situation: Situation) -> Strategy:
    home, nodes = situation.home, situation.nodes
    if situation.few_threads and _is_possible(BIND, situation):
        return Strategy(
            BIND,
            f"the model fits node {home}, which has a core for each of "
            f"{counted(situation.threads or 0, 'thread')}",
            f"more than {counted(situation.cores[home], 'thread')}",
        )
    if _is_possible(MIRROR, situation):
        return Strategy(
            MIRROR,
            f"a copy fits on each of nodes {format_list(nodes)}",
            "less free memory, or few threads (-t) that one node can serve",
        )
    part = situation.partial_coverage if MIRROR in situation.possible else 0.0
    if part < PART_IS_ENOUGH and _is_possible(SHARD, situation):
        return _sharded(situation)
    if part > 0:
        return _partial(situation)
    if _is_possible(PREFER, situation):
        return Strategy(PREFER, "there is no room for a copy", "more free memory on other nodes")
    return Strategy(NONE, "the model is larger than the free memory", "more free memory")


def _partial(situation: Situation) -> Strategy:
    return Strategy(
        MIRROR,
        f"a part that serves {percent(situation.partial_coverage)} of the reads fits on each "
        "node, what is read most first",
        "more free memory: then all of it",
    )


def _sharded(situation: Situation) -> Strategy:
    part = situation.partial_coverage
    served = f"one that serves {percent(part)} of the reads" if part else "none"
    return Strategy(
        SHARD,
        f"of copies, {served} fits; at one copy each row lies with the thread that reads it",
        "room for copies, long prompts rather than decoding, or other work on these cores",
    )


def _by_model(situation: Situation, bandwidth: Bandwidth) -> Strategy:
    """The cheapest that no dearer one beats by more than it costs."""
    machine = Reader(bandwidth, situation.cores, situation.home, situation.threads)
    candidates = [name for name in BY_COST if _is_candidate(name, situation)]
    if not candidates:
        return Strategy(NONE, "there is no room for anything else", "more free memory")
    best = candidates[0]
    for dearer in candidates[1:]:
        if _gain(dearer, best, machine, situation).low >= WORTH_IT:
            best = dearer
    others = [name for name in candidates if name != best]
    if not others:
        return Strategy(best, "nothing else is possible here", "more free memory")
    return _explained(best, others, machine, situation)


def _explained(best: str, others: list[str], machine: Reader, situation: Situation) -> Strategy:
    """The choice, held against the best of the others."""
    rival = max(others, key=lambda name: _gain(name, best, machine, situation).high)
    source = machine.bandwidth.source
    if BY_COST.index(best) < BY_COST.index(rival):
        gain = _times(_gain(rival, best, machine, situation))
        return Strategy(
            best,
            f"{rival} would give {gain} its speed, by {source}: no certain gain",
            f"a gain of {rival} that is certain to be above {percent(WORTH_IT - 1)}",
        )
    because = f"{_times(_gain(best, rival, machine, situation))} the speed of {rival}, by {source}"
    if best == MIRROR and not _is_possible(MIRROR, situation):
        because += f", with {percent(situation.partial_coverage)} of the reads mirrored"
    instead = SHARD if best == MIRROR and _is_possible(SHARD, situation) else rival
    return Strategy(best, because, f"less free memory: then {instead}")


def _times(gain: Range) -> str:
    """Before "the speed": "1.2 to 1.4 times", "just"."""
    low, high = f"{gain.low:.1f}", f"{gain.high:.1f}"
    if low == high:
        return "just" if low == "1.0" else f"{low} times"
    return f"{low} to {high} times"


def _gain(name: str, other: str, machine: Reader, situation: Situation) -> Range:
    whole = _is_possible(MIRROR, situation)
    coverage = situation.coverage if whole else situation.partial_coverage
    return compare(name, other, machine, situation.fixed, coverage)


def _is_candidate(name: str, situation: Situation) -> bool:
    """Bind is one only for few threads: it leaves the other nodes' cores idle. Shard is one only
    where copies do not fit."""
    if name == BIND and not situation.few_threads:
        return False
    if name == SHARD and _is_possible(MIRROR, situation):
        return False
    if name == MIRROR and name in situation.possible and situation.partial_coverage > 0:
        return True
    return _is_possible(name, situation)


def _is_possible(name: str, situation: Situation) -> bool:
    if name == SHARD and situation.all_threads % len(situation.nodes):
        return False  # one thread's rows would lie on one node, its neighbours' on another
    return name in situation.possible and ram_for(name, situation).fits


def ram_for(name: str, situation: Situation) -> Ram:
    """What a strategy needs in that situation, one copy per node."""
    groups = [(node,) for node in situation.nodes]
    primary, replica = situation.primary or 0, situation.replica or 0
    return ram_of(name, primary, replica, groups, situation.home, situation.there)
