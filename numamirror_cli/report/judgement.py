"""What to make of an inspection: one to three sentences, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from numamirror_cli.figures import percent
from numamirror_cli.machine.cpulist import parse_list
from numamirror_cli.machine.notes import name_nodes
from numamirror_cli.memory.inspection import Inspection
from numamirror_cli.memory.kernel import BALANCING_OFF
from numamirror_cli.memory.process import Process
from numamirror_cli.memory.status_page import MirrorStatus
from numamirror_cli.memory.weights import MOST, Weights, replica_bytes
from numamirror_cli.quoting import shell_line, shell_word
from numamirror_cli.report.mirror import judge_mirror
from numamirror_cli.report.units import size
from numamirror_cli.report.verdict import BAD, OK, WARN, Verdict

# A mirror holds what GEMM reads; embeddings and norms stay where they are.
_MOST_OF_A_COPY = 0.8
# States of the shim in which it left the engine alone, and those in which the weights are where
# the engine put them.
_LEFT_ALONE = ("inert", "off")
_LEFT_TO_THE_KERNEL = (*_LEFT_ALONE, "observed")


def judge(inspection: Inspection) -> tuple[Verdict, ...]:
    """All verdicts on a process, the weightiest subject first."""
    return (
        *_judge_placement(inspection),
        *_judge_replicas(inspection),
        *judge_balancing(inspection.numa_balancing, inspection.nodes),
    )


def judge_balancing(numa_balancing: int | None, nodes: Sequence[int]) -> Iterator[Verdict]:
    """Automatic NUMA balancing moves pages behind everybody's back, on more than one node."""
    if numa_balancing and len(nodes) > 1:
        text = (
            f"kernel.numa_balancing is {numa_balancing}: the kernel moves pages by itself, and "
            "stalls threads to find out which"
        )
        yield Verdict(WARN, text, BALANCING_OFF)


def judge_weights(
    weights: Weights,
    thread_nodes: frozenset[int],
    *,
    start_again: str,
    settle: str = "",
) -> Iterator[Verdict]:
    """Where the weights are against where the threads are.

    thread_nodes: where they run. start_again, settle: the command lines of the remedies.
    """
    if weights.in_file and weights.faulted_share < MOST:
        text = (
            f"{percent(weights.faulted_share)} of {size(weights.mapped)} faulted in: "
            "placement is not final"
        )
        yield Verdict(WARN, text, settle)
    if weights.own_mirror and weights.one_copy:
        yield _judge_own_mirror(weights, weights.one_copy, thread_nodes)
    else:
        yield _judge_spread(weights, thread_nodes, _remedy(weights, start_again))


def _remedy(weights: Weights, start_again: str) -> str:
    """Large anonymous memory beside no known model may be no weights at all."""
    if weights.in_file or weights.one_copy or not start_again:
        return start_again
    return f"if these are weights: {start_again}"


def _judge_own_mirror(weights: Weights, one_copy: int, thread_nodes: frozenset[int]) -> Verdict:
    """An engine that mirrors by itself, by what the kernel shows: is a copy where threads are?"""
    shares = {node: weights.by_node.get(node, 0) / one_copy for node in sorted(thread_nodes)}
    held = ", ".join(f"node {node} {percent(min(1.0, s))}" for node, s in shares.items())
    text = f"the engine mirrors by itself (--numa mirror): of {size(one_copy)}, there is on {held}"
    if min(shares.values(), default=0.0) >= _MOST_OF_A_COPY:
        return Verdict(OK, text)
    return Verdict(WARN, text, "see its log for what it mirrored; inspect again after some tokens")


def _judge_placement(inspection: Inspection) -> Iterator[Verdict]:
    status = inspection.mirror
    if inspection.mirror_problem:
        yield Verdict(WARN, f"{inspection.mirror_problem}: whether it is mirrored is not known")
    if status is not None:
        yield from _with_remedy(judge_mirror(status), status, inspection.process)
        if status.state not in _LEFT_TO_THE_KERNEL:
            return
    weights = inspection.weights
    if len(inspection.nodes) < 2:
        yield Verdict(OK, "this machine has one memory node: there is nothing to place")
    elif weights is None:
        yield Verdict(OK, "no weights found: no GGUF file is mapped, and no large buffer is there")
    else:
        yield from judge_weights(
            weights,
            inspection.threads.nodes,
            start_again=_start_again(inspection),
            settle=f"numamirror inspect {inspection.process.pid} --until-settled",
        )


def _with_remedy(
    verdicts: Iterable[Verdict], status: MirrorStatus, process: Process
) -> Iterator[Verdict]:
    """An engine that the shim left alone: what it lacks can be asked while it runs."""
    for verdict in verdicts:
        if status.state in _LEFT_ALONE and not verdict.remedy:
            verdict = replace(verdict, remedy=f"numamirror check {process.pid}")
        yield verdict


def _start_again(inspection: Inspection) -> str:
    """The command line that mirrors it; none where that was in vain already, and where one node
    holds all the memory it may use."""
    if inspection.mirror is not None and inspection.mirror.state in _LEFT_ALONE:
        return ""
    mems = inspection.cpuset.mems
    return "" if mems is not None and len(mems) < 2 else restart_command(inspection.process)


def _judge_spread(weights: Weights, thread_nodes: frozenset[int], start_again: str) -> Verdict:
    what = f"{size(weights.bytes)}{_what(weights)}"
    nodes = weights.nodes
    if weights.mirrored:
        return Verdict(OK, f"{_copies(weights)} on {name_nodes(nodes)}: mirrored")
    if len(nodes) > 1 and weights.one_copy is None:
        text = f"{what}: spread over {len(nodes)} nodes; how many copies that makes is not known"
        return Verdict(WARN, text, start_again)
    if len(nodes) > 1:
        text = f"{_copies(weights)}, {what}: spread over {len(nodes)} nodes, NOT mirrored"
        return Verdict(WARN, text, start_again)
    where = f"{percent(_share_on(weights, nodes))} of {what} on {name_nodes(nodes)}"
    if not thread_nodes:
        return Verdict(WARN, f"{where}; where its threads run is not known")
    if thread_nodes == frozenset(nodes):
        return Verdict(OK, f"{where}, where its threads run: local")
    threads = f"threads on {name_nodes(sorted(thread_nodes))}"
    if not thread_nodes & frozenset(nodes):
        return Verdict(BAD, f"{where}, {threads}: remote{_policy_phrase(weights)}", start_again)
    return Verdict(WARN, f"{where}, {threads}: local to some, remote to the others", start_again)


def _what(weights: Weights) -> str:
    if weights.in_file:
        return " of weights"
    return " of anonymous memory, taken for weights by its size"


def _copies(weights: Weights) -> str:
    """As in "1.02 copies of 379 GiB"."""
    return f"{copies_text(weights.copies or 0.0)} of {size(weights.one_copy or 0)}"


def copies_text(copies: float) -> str:
    """How many copies, with the digits that tell spread from mirrored: "1.02 copies"."""
    digits = 1 if abs(copies - round(copies, 1)) < 0.005 else 2
    return f"{copies:.{digits}f} copies"


def _share_on(weights: Weights, nodes: Sequence[int]) -> float:
    on = sum(weights.by_node.get(node, 0) for node in nodes)
    return on / weights.bytes if weights.bytes else 0.0


def _policy_phrase(weights: Weights) -> str:
    """A policy that asked for other nodes did nothing to pages that were in the cache before."""
    policy = weights.policy
    if not weights.in_file or policy.is_default or policy.nodes & frozenset(weights.nodes):
        return ""
    return f"; {policy} does not move cached pages"


def _judge_replicas(inspection: Inspection) -> Iterator[Verdict]:
    """The kernel's word on the shim's arenas, against what each is named after."""
    if inspection.mirror is None or inspection.mirror.rehearsal:
        return
    for arena, by_node in replica_bytes(inspection.buffers).items():
        astray = _astray(arena, by_node)
        total = sum(by_node.values())
        if arena and total and astray > (1 - MOST) * total:
            text = f"{percent(astray / total)} of the replica for node {arena} lies elsewhere"
            yield Verdict(BAD, text, restart_command(inspection.process))


def _astray(arena: str, by_node: Mapping[int, int]) -> int:
    """Bytes outside the nodes that the arena is named after ("0", or "2-3" for a socket)."""
    try:
        wanted = parse_list(arena)
    except ValueError:  # a name that is not of our making
        return 0
    return sum(count for node, count in by_node.items() if node not in wanted)


def restart_command(process: Process) -> str:
    """The command line that starts a process again, mirrored."""
    command = shell_line(process.arguments) or shell_word(process.command)
    return f"numamirror run -- {command}"
