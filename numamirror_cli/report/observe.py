"""What was observed of an engine's reads, and what each strategy would make of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from numamirror_cli.figures import counted, percent
from numamirror_cli.memory.status_page import MirrorStatus, TensorGroup
from numamirror_cli.plan.observed import (
    Observed,
    local_shares,
    observed_reads,
    speed_against_now,
)
from numamirror_cli.plan.predict import FIXED_CPU, Reader
from numamirror_cli.report.folded import Folded
from numamirror_cli.report.mirror import uncounted_reads
from numamirror_cli.report.plan import two_digits
from numamirror_cli.report.tables import plain_table
from numamirror_cli.report.units import size

# Rows of the table of tensors; `run --json` has them all.
_MOST_GROUPS = 8
_WHAT_THE_ERROR_IS = "(±: by sampling, at 95 %; what moved or came in between samples is not in it)"
_WHAT_IT_TAKES = {
    "mirror": "a copy on every node",
    "shard": "one copy; threads pinned; decode only",
    "interleave": "one copy",
    "bind": "one node's cores and memory",
}


def render_observed(
    status: MirrorStatus, machine: Reader | None, now: float, fixed: float = FIXED_CPU
) -> RenderableType:
    """Tables of reads by node and of strategies. machine: with a bench, for speeds; now: seconds
    since 1970 when the status was read; fixed: as in predict.py."""
    observed = observed_reads(status)
    parts: list[RenderableType] = [Folded(line) for line in _facts(status, observed, now)]
    if observed.bytes:
        parts += [Text(), _reads(observed), Folded(_WHAT_THE_ERROR_IS)]
    if remote := _most_remote(status):
        parts += [Text(), _tensors(remote)]
    if len(status.copies) > 1 and observed.bytes:
        parts += [Text(), *_strategies(observed, len(status.copies), machine, fixed)]
    return Group(*parts)


def _facts(status: MirrorStatus, observed: Observed, now: float) -> Iterator[str]:
    if status.rehearsal:
        pretend = counted(status.rehearsal, "pretend node")
        yield f"A rehearsal with {pretend}: no reads are nearer than others"
    weights = f"{size(status.gemm_bytes)} in {counted(status.gemm_tensors, 'tensor')}"
    if observed.per_token is not None:
        tokens = counted(observed.tokens, "token")
        yield f"GEMM read {size(observed.per_token)} per token ({tokens}), of weights of {weights}"
    elif status.gemm_bytes:
        yield f"Weights that GEMM reads: {weights}"
    if status.observed_bytes < status.gemm_bytes:
        yield f"The kernel said where {size(status.observed_bytes)} of them are"
    if status.placement_unix_ns:
        ago = max(0.0, now - status.placement_unix_ns / 1e9)
        # True of pages that never moved as well: the first look counts as a change.
        yield f"Their placement was not seen to change for the last {_duration(ago)}"
    if status.uncounted_threads:
        yield f"Not counted: {uncounted_reads(status)}"


def _duration(seconds: float) -> str:
    """ "2.9 s", "14 min", "3.5 h": two digits, as far as anybody needs them."""
    if seconds < 120:
        return f"{two_digits(seconds)} s"
    if seconds < 7200:
        return f"{two_digits(seconds / 60)} min"
    return f"{two_digits(seconds / 3600)} h"


def _reads(observed: Observed) -> Table:
    right = ("Threads", "Read", "From its own memory", "From elsewhere")
    table = plain_table("Node", *right, right=right)
    for node in observed.nodes:
        table.add_row(
            str(node.node),
            str(node.threads) if node.threads else "ended",
            size(node.bytes),
            percent(node.share),
            percent(1 - node.share),
        )
    error = f"{observed.error * 100:.1f} %"
    table.add_row(
        "all",
        "",
        size(observed.bytes),
        f"{percent(observed.share)} ± {error}",
        percent(1 - observed.share),
        style="bold",
    )
    return table


def _most_remote(status: MirrorStatus) -> list[TensorGroup]:
    """The groups of tensors of which most was read from elsewhere."""
    remote = [group for group in status.groups if group.other_bytes]
    return sorted(remote, key=lambda group: group.other_bytes, reverse=True)[:_MOST_GROUPS]


def _tensors(groups: Sequence[TensorGroup]) -> Table:
    right = ("Tensors", "Size", "Read elsewhere", "Of its reads")
    table = plain_table("Weights", *right, right=right)
    for group in groups:
        read = group.local_bytes + group.other_bytes
        table.add_row(
            group.name if group.name != "*" else "all others",
            str(group.tensors),
            size(group.bytes),
            size(group.other_bytes),
            percent(group.other_bytes / read),
        )
    return table


def _strategies(
    observed: Observed, nodes: int, machine: Reader | None, fixed: float
) -> Iterator[RenderableType]:
    right = ("Local reads", "Decode speed")
    table = plain_table("Strategy", *right, "Takes", right=right)
    for strategy, share in local_shares(nodes).items():
        speed = _speed(strategy, observed, machine, fixed)
        table.add_row(strategy, percent(share), speed, _WHAT_IT_TAKES[strategy])
    yield table
    if machine is None:
        yield Folded("(numamirror bench measures the machine: then speeds are predicted too)")
    else:
        yield Folded(f"(decode speed: times that of this run, by {machine.bandwidth.source})")


def _speed(strategy: str, observed: Observed, machine: Reader | None, fixed: float) -> str:
    ratio = None
    if machine is not None:
        ratio = speed_against_now(strategy, observed, machine, fixed)
    if ratio is None:
        return "?"
    low, high = two_digits(ratio.low), two_digits(ratio.high)
    return f"x {low}" if low == high else f"x {low} to {high}"
