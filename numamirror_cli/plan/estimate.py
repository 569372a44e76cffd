"""All that `plan` has to say about a model on a machine, as facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numamirror_cli.machine.model import Machine
from numamirror_cli.plan import advice
from numamirror_cli.plan.advice import Advice
from numamirror_cli.plan.bandwidth import Bandwidth
from numamirror_cli.plan.cores import cores_by_mirror_node
from numamirror_cli.plan.engine_args import EngineArguments
from numamirror_cli.plan.facts import Model
from numamirror_cli.plan.kv_cache import kv_cache_bytes
from numamirror_cli.plan.layout import BIND, INTERLEAVE, MIRROR, NONE, PREFER, SHARD
from numamirror_cli.plan.predict import (
    FIXED_CPU,
    FIXED_WITH_GPU,
    Measured,
    Range,
    Reader,
    predict,
    predict_from,
    reading_time,
)
from numamirror_cli.plan.ram import (
    Groups,
    Ram,
    available_bytes,
    groups_by_node,
    groups_by_socket,
    ram_of,
)
from numamirror_cli.plan.strategy import Situation, Strategy, choose_strategy
from numamirror_cli.plan.workload import Workload, weigh

STRATEGIES = (MIRROR, SHARD, PREFER, INTERLEAVE, BIND, NONE)
GB = 1e9


@dataclass(frozen=True)
class Request:
    """What is to be planned. memlock: RLIMIT_MEMLOCK in
    bytes, UNLIMITED where it is, None when not known."""

    model: Model
    machine: Machine
    arguments: EngineArguments
    bandwidth: Bandwidth | None = None
    measured: Measured | None = None
    memlock: int | None = None


@dataclass(frozen=True)
class Row:
    """One strategy. copies_on: "node" or "socket", of a mirror. coverage: the share of the reads
    that replicas serve. reading: seconds per token; rate: tokens a second; None when no bandwidth
    is known or nothing is read."""

    strategy: str
    ram: Ram
    copies_on: str = "node"
    coverage: float = 1.0
    reading: Range | None = None
    rate: Range | None = None


@dataclass(frozen=True)
class Estimate:
    """there, cores: available bytes, and reading cores, by mirror node. kv_bytes: of the cache
    with a full context."""

    request: Request
    workload: Workload
    kv_bytes: int
    there: Mapping[int, int]
    cores: Mapping[int, int]
    rows: tuple[Row, ...]
    choice: Strategy
    advice: tuple[Advice, ...]


def estimate(request: Request) -> Estimate:
    """Weigh every strategy for that request. Raises NumaMirrorError for impossible arguments."""
    model, machine, arguments = request.model, request.machine, request.arguments
    work = weigh(model, arguments)
    kv_bytes = kv_cache_bytes(model, arguments)
    there = {n: available_bytes(machine.node(n)) for n in machine.mirror_nodes}
    situation = _situation(request, work, work.resident + kv_bytes, there)
    rows = tuple(_rows(request, work, situation)) if there else ()
    return Estimate(
        request=request,
        workload=work,
        kv_bytes=kv_bytes,
        there=there,
        cores=situation.cores,
        rows=rows,
        choice=choose_strategy(situation),
        advice=tuple(_advice(request, work, rows, there)),
    )


def _situation(
    request: Request, work: Workload, primary: int, there: Mapping[int, int]
) -> Situation:
    machine, arguments = request.machine, request.arguments
    home = machine.home.node if machine.home.node is not None else 0
    others = [room for node, room in there.items() if node != home]
    spilled = max(0, primary - there.get(home, 0))
    room = max(0, min(others, default=0) - spilled)
    return Situation(
        cores=cores_by_mirror_node(machine),
        there=there,
        home=home,
        primary=primary,
        replica=work.copied,
        coverage=work.coverage,
        partial_coverage=work.partial_coverage(room),
        threads=arguments.threads,
        bandwidth=request.bandwidth,
        possible=frozenset(STRATEGIES),
        fixed=FIXED_WITH_GPU if arguments.gpu_layers else FIXED_CPU,
    )


def _rows(request: Request, work: Workload, situation: Situation) -> list[Row]:
    by_node, by_socket = groups_by_node(request.machine), groups_by_socket(request.machine)
    several = len(by_node) > 1
    rows = [
        _row(strategy, by_node, request, work, situation)
        for strategy in (STRATEGIES if several else (NONE,))
    ]
    if 1 < len(by_socket) < len(by_node):
        rows.insert(1, _row(MIRROR, by_socket, request, work, situation))
    return rows


def _row(
    strategy: str, groups: Groups, request: Request, work: Workload, situation: Situation
) -> Row:
    primary, replica = situation.primary or 0, situation.replica or 0
    ram = ram_of(strategy, primary, replica, groups, situation.home, situation.there)
    per_socket = any(len(group) > 1 for group in groups)
    if per_socket:
        # The model knows no links between sockets: what half a socket reads is not predicted.
        return Row(strategy, ram, "socket", work.coverage)
    coverage = 1.0
    if strategy == MIRROR:
        coverage = situation.coverage if ram.fits else situation.partial_coverage
    bandwidth = request.bandwidth
    if bandwidth is None or not bandwidth.covers(situation.nodes) or not work.read:
        return Row(strategy, ram, coverage=coverage)
    machine = Reader(bandwidth, situation.cores, situation.home, situation.threads)
    gigabytes = work.read / GB
    reading = reading_time(strategy, gigabytes, machine, coverage)
    if request.measured is not None:
        rate = predict_from(request.measured, strategy, gigabytes, machine, coverage)
    else:
        rate = predict(strategy, gigabytes, machine, situation.fixed, coverage)
    return Row(strategy, ram, coverage=coverage, reading=reading, rate=rate)


def _advice(
    request: Request, work: Workload, rows: Sequence[Row], there: Mapping[int, int]
) -> list[Advice]:
    by_name = {(row.strategy, row.copies_on): row.ram for row in rows}
    mirror, bind = by_name.get((MIRROR, "node")), by_name.get((BIND, "node"))
    machine, arguments = request.machine, request.arguments
    totals = {node.id: node.mem_total or 0 for node in machine.nodes if node.can_hold_a_copy}
    copies = len(machine.mirror_nodes) or 1
    found = [
        advice.copies_that_do_not_fit(mirror, by_name.get((MIRROR, "socket")), there)
        if mirror
        else None,
        advice.pinned_too_large(work.resident, totals, arguments),
        advice.lock_limit(work.resident, copies, request.memlock, arguments),
        advice.fits_one_node(bind, copies) if bind else None,
    ]
    return [each for each in found if each is not None]
