"""What was observed of an engine's reads, and what each strategy would make of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from numamirror_cli.memory.status_page import MirrorStatus, TensorGroup
from numamirror_cli.plan.observed import (
    Observed,
    local_shares,
    observed_reads,
    speed_against_now,
)
from numamirror_cli.plan.predict import FIXED_CPU, Reader
from numamirror_cli.report.plan import two_digits
from numamirror_cli.report.tables import plain_table
from numamirror_cli.report.text import counted, percent
from numamirror_cli.report.units import size

# Rows of the table of tensors; `run --json` has them all.
_MOST_GROUPS = 8
_WHAT_IT_TAKES = {
    "mirror": "a copy on every node",
    "shard": "one copy; threads pinned; decode only",
    "interleave": "one copy",
    "bind": "one node's cores and memory",
}


def render_observed(status: MirrorStatus, machine: Reader | None, now: float) -> RenderableType:
    """Tables of reads by node and of strategies. machine: with a bench, for speeds; now: seconds
    since 1970 when the status was read."""
    observed = observed_reads(status)
    parts: list[RenderableType] = [Text(line) for line in _facts(status, observed, now)]
    if observed.bytes:
        parts += [Text(), _reads(observed)]
    if remote := _most_remote(status):
        parts += [Text(), _tensors(remote)]
    if len(status.copies) > 1 and observed.bytes:
        parts += [Text(), _strategies(observed, len(status.copies), machine)]
    return Group(*parts)


def _facts(status: MirrorStatus, observed: Observed, now: float) -> Iterator[str]:
    if observed.per_token is not None:
        tokens = counted(observed.tokens, "token")
        yield f"GEMM read {size(observed.per_token)} of weights per token, in {tokens}"
    if status.gemm_bytes:
        yield (
            f"of {size(status.gemm_bytes)} in {counted(status.gemm_tensors, 'tensor')}, "
            f"{size(status.observed_bytes)} of them looked for"
        )
    if status.placement_unix_ns:
        ago = max(0.0, now - status.placement_unix_ns / 1e9)
        yield f"Their pages last moved {two_digits(ago)} s ago"


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
    right = ("Tensors", "Size", "From elsewhere", "Of its reads")
    table = plain_table("Read from elsewhere", *right, right=right)
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


def _strategies(observed: Observed, nodes: int, machine: Reader | None) -> Table:
    right = ("Local reads", "Decode speed")
    table = plain_table("Strategy", *right, "Takes", right=right)
    for strategy, share in local_shares(nodes).items():
        table.add_row(
            strategy, percent(share), _speed(strategy, observed, machine), _WHAT_IT_TAKES[strategy]
        )
    return table


def _speed(strategy: str, observed: Observed, machine: Reader | None) -> str:
    ratio = None
    if machine is not None:
        ratio = speed_against_now(strategy, observed, machine, FIXED_CPU)
    if ratio is None:
        return "? (bench)"
    return f"x {two_digits(ratio.low)} to {two_digits(ratio.high)}"
