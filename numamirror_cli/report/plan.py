"""What `plan` found out, as a page and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from numamirror_cli.figures import counted, percent
from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.notice import Notice
from numamirror_cli.plan.estimate import Estimate, Row
from numamirror_cli.plan.kv_cache import context_tokens
from numamirror_cli.plan.layout import MIRROR
from numamirror_cli.plan.predict import Range
from numamirror_cli.plan.ram import Need
from numamirror_cli.report.folded import Folded
from numamirror_cli.report.plan_advice import ALL_BUT_NOTHING, notes, title
from numamirror_cli.report.tables import facts_table, plain_table
from numamirror_cli.report.units import size

SCHEMA = 1


def render_plan(estimate: Estimate) -> RenderableType:
    """The model, a table of strategies, the choice, and notes; for 80 columns and up."""
    parts: list[RenderableType] = [_facts(_model_lines(estimate))]
    if estimate.rows:
        parts += [Text(), _strategies(estimate)]
    return Group(*parts, Text(), _facts(_conclusion_lines(estimate)))


def _facts(lines: Sequence[tuple[str, str]]) -> Table:
    return facts_table(lines, word_width=10)


def _model_lines(estimate: Estimate) -> list[tuple[str, str]]:
    request, work = estimate.request, estimate.workload
    arguments = request.arguments
    types = f"{arguments.cache_type_k}/{arguments.cache_type_v}"
    context = context_tokens(request.model, arguments)
    lines = [
        ("Model", title(request.model)),
        ("On the CPU", f"{size(work.resident)} of weights{_experts(estimate)}"),
        ("Per token", f"GEMM reads {size(work.read)} of them"),
        ("KV cache", f"{_at_most(estimate.kv_bytes)} ({counted(context, 'token')}, {types})"),
    ]
    if request.bandwidth is not None:
        lines.append(("Bandwidth", request.bandwidth.source))
    return lines


def _at_most(count: int) -> str:
    return f"at most {size(count)}" if count else "none on the CPU"


def _experts(estimate: Estimate) -> str:
    work, model = estimate.workload, estimate.request.model
    if not work.experts:
        return ""
    used = f"{model.number('expert_used_count')} of {model.number('expert_count')}"
    return f", {size(work.experts)} of it in routed experts ({used} are read)"


def _strategies(estimate: Estimate) -> Table:
    right = ("Reading, ms", "Tokens/s")
    table = plain_table("Strategy", "Memory by node", "Fits", *right, right=right)
    for row in estimate.rows:
        table.add_row(
            Folded(_name(row)),
            Folded(", ".join(map(_need, row.ram.needs))),
            "yes" if row.ram.fits else "in part" if row.strategy == MIRROR else "no",
            "?" if row.reading is None else milliseconds(row.reading),
            "?" if row.rate is None else rate(row.rate),
            style="bold" if row.strategy == estimate.choice.name else "",
        )
    return table


def _name(row: Row) -> str:
    """ "mirror", "mirror per socket", with the share of the reads it serves where it is not all."""
    name = f"{row.strategy} per socket" if row.copies_on == "socket" else row.strategy
    return name if row.coverage >= ALL_BUT_NOTHING else f"{name} ({percent(row.coverage)})"


def _need(need: Need) -> str:
    return f"{format_list(need.nodes)}: {size(need.bytes)}"


def milliseconds(seconds: Range) -> str:
    """ "62.7" or "125 to 180"."""
    return _between(seconds.low * 1e3, seconds.high * 1e3)


def rate(tokens: Range) -> str:
    """ "6.4 to 16": two digits, since the model knows no more."""
    return _between(tokens.low, tokens.high)


def _between(low: float, high: float) -> str:
    first, second = two_digits(low), two_digits(high)
    return first if first == second else f"{first} to {second}"


def two_digits(value: float) -> str:
    """Two significant digits without an exponent: "0.63", "6.4", "16", "130"."""
    if value <= 0:
        return "0"
    rounded = float(f"{value:.2g}")
    return f"{rounded:.0f}" if rounded >= 10 else f"{rounded:g}"


def _conclusion_lines(estimate: Estimate) -> list[tuple[str, str]]:
    choice = estimate.choice
    lines = [
        ("Choice", f"{choice.name}: {choice.because}"),
        ("", f"what would change it: {choice.would_change}"),
    ]
    for number, note in enumerate(notes(estimate)):
        lines.append(("" if number else "Notes", notice_sentence(note)))
    return lines


def notice_sentence(notice: Notice) -> str:
    """ "what: why (remedy)", as far as each is there."""
    line = ": ".join(part for part in (notice.what, notice.why) if part)
    return f"{line} ({notice.remedy})" if notice.remedy else line


def plan_json(estimate: Estimate) -> dict[str, Any]:
    """The document of `plan --json`, version 1 (docs/json.md)."""
    request, work = estimate.request, estimate.workload
    model, choice = request.model, estimate.choice
    return {
        "schema": SCHEMA,
        "model": {
            "name": model.name,
            "architecture": model.architecture,
            "files": [str(part) for part in model.parts],
            "bytes": model.bytes,
        },
        "cpu": {
            "resident_bytes": work.resident,
            "gemm_bytes": work.gemm,
            "dense_bytes": work.dense,
            "expert_bytes": work.experts,
            "expert_share_read": work.experts_share,
            "small_bytes": work.small,
            "read_bytes_per_token": round(work.read),
        },
        "kv_cache_bytes": estimate.kv_bytes,
        "available_bytes": {str(node): there for node, there in estimate.there.items()},
        "bandwidth": None if request.bandwidth is None else request.bandwidth.source,
        "strategies": [_row_json(row) for row in estimate.rows],
        "choice": {
            "strategy": choice.name,
            "because": choice.because,
            "would_change": choice.would_change,
        },
        "not_considered": list(request.arguments.unknown),
        "notes": [
            {"level": note.level, "what": note.what, "why": note.why, "remedy": note.remedy}
            for note in notes(estimate)
        ],
    }


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "strategy": row.strategy,
        "copies_per": row.copies_on if row.strategy == MIRROR else None,
        "needs": [{"nodes": list(need.nodes), "bytes": need.bytes} for need in row.ram.needs],
        "bytes": row.ram.bytes,
        "fits": row.ram.fits,
        "coverage": row.coverage,
        "reading_seconds": _range_json(row.reading),
        "tokens_per_second": _range_json(row.rate),
    }


def _range_json(between: Range | None) -> dict[str, float] | None:
    return None if between is None else {"low": between.low, "high": between.high}
