"""The mirror as the shim counts it: a table, a JSON object, and what to make of it."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from numamirror_cli.engine.status_layout import MAX_THREADS
from numamirror_cli.figures import counted, nodes_word, percent
from numamirror_cli.machine.cpulist import parse_list
from numamirror_cli.memory.status_page import Copy, MirrorStatus, TensorGroup, ThreadReads
from numamirror_cli.report.tables import facts_table, plain_table
from numamirror_cli.report.units import part_of, size
from numamirror_cli.report.verdict import BAD, OK, WARN, Verdict

# From here on a copy counts as being where it belongs: a page or two may be in transit.
_IN_PLACE = 0.99
_GOOD_COVERAGE = 0.95
_POOR_COVERAGE = 0.5


def used_copies(status: MirrorStatus) -> tuple[Copy, ...]:
    """The copies, or parts of the one copy, that hold weights, in the order of their nodes."""
    roles = ("primary", "replica", "shard", "part")
    return tuple(copy for copy in status.copies if copy.role in roles)


def render_mirror(status: MirrorStatus, *, ended: bool = False) -> RenderableType:
    """A table of copies, then what the verdict does not say: what is not covered, the engine.

    ended: so has the process, and that its weights are freed goes without saying.
    """
    parts: list[RenderableType] = []
    if used_copies(status):
        parts += [_copy_table(status), Text()]
    return Group(*parts, facts_table(_facts(status, ended)))


def mirror_json(status: MirrorStatus) -> dict[str, Any]:
    """The `mirror` object of `inspect --json` and `run --json` (docs/json.md).

    In a rehearsal the keys of `nodes` are pretend nodes. locality is null before any read.
    """
    return {
        "engine": status.engine,
        "state": status.state,
        "reason": status.reason,
        "gemm_bytes": status.gemm_bytes,
        "mirrored_bytes": status.mirrored_bytes,
        "small_bytes": status.small_bytes,
        "refused_bytes": status.refused_bytes,
        "sharded_bytes": status.sharded_bytes,
        "observed_bytes": status.observed_bytes,
        "interleaved_bytes": status.interleaved_bytes,
        "placement_unix_ns": status.placement_unix_ns,
        "decode_graphs": status.decode_graphs,
        "decode_bytes": status.decode_bytes,
        "upload_replica_bytes": status.upload_replica_bytes,
        "upload_primary_bytes": status.upload_primary_bytes,
        "arena_bytes": status.arena_bytes,
        "token_bytes": status.token_bytes,
        "token_mirrored_bytes": status.token_mirrored_bytes,
        "coverage": status.coverage,
        "coverage_read": status.coverage_read,
        "locality": status.locality,
        "read_bytes": status.read_bytes,
        "redirected": status.redirected,
        "not_redirected": status.not_redirected,
        "uncounted_threads": status.uncounted_threads,
        "rehearsal": bool(status.rehearsal),
        "home": status.home,
        "nodes": {str(copy.node): _copy_json(status, copy) for copy in used_copies(status)},
        "tensors": [_group_json(group) for group in status.groups],
    }


def uncounted_reads(status: MirrorStatus) -> str:
    """Which reads are in none of the figures."""
    threads = counted(status.uncounted_threads, "thread")
    return f"reads of {threads} (over {MAX_THREADS} at once, or behind a seccomp filter)"


def judge_mirror(status: MirrorStatus) -> tuple[Verdict, ...]:
    """What to make of a mirror. Nothing is called mirrored that no sample found in place."""
    state = _state_before_freed(status) if status.state == "freed" else status.state
    if state in ("mirrored", "partial"):
        return tuple(_judge_built(status))
    if state == "sharded":
        return (_judge_shard(status),)
    if state == "observed":
        return (_judge_observed(status),)
    if state == "interleaved":
        return (_judge_interleaved(status),)
    return (_judge_not_built(status),)


def _state_before_freed(status: MirrorStatus) -> str:
    """What the figures that a freed model leaves behind were figures of."""
    if status.observed_bytes:
        return "observed"
    if status.sharded_bytes:
        return "sharded"
    if status.interleaved_bytes:
        return "interleaved"
    if not status.mirrored_bytes:
        return "off"
    return "partial" if status.refused_bytes else "mirrored"


def _judge_not_built(status: MirrorStatus) -> Verdict:
    why = f": {status.reason}" if status.reason else ""
    if status.state == "waiting":
        text = "nothing is mirrored yet: no engine has computed in this process so far"
        return Verdict(WARN, text, "generate some tokens, then inspect it again")
    if status.state == "building":
        text = "nothing is mirrored yet: replicas are being built"
        return Verdict(WARN, text, "inspect it again when they are complete")
    return Verdict(BAD, f"NOT mirrored{why}")


def _judge_built(status: MirrorStatus) -> Iterator[Verdict]:
    misplaced = [copy for copy in used_copies(status) if copy.local_share < _IN_PLACE]
    yield from (_judge_misplaced(copy) for copy in misplaced)
    yield _judge_coverage(status, in_place=not misplaced)
    if status.rehearsal:
        pretend = counted(status.rehearsal, "pretend node")
        text = f"this is a rehearsal with {pretend}: it shows that the copies are read, no gain"
        yield Verdict(WARN, text)


def _judge_shard(status: MirrorStatus) -> Verdict:
    if status.rehearsal:
        pretend = counted(status.rehearsal, "pretend node")
        return Verdict(WARN, f"shard rehearsed with {pretend}: no page was moved, nothing is local")
    local = _sampled_share(used_copies(status))
    text = (
        f"sharded: {size(status.sharded_bytes)} at one copy, {percent(local)} of its pages on the "
        f"node of their reader{_locality_phrase(status)}"
    )
    if local >= _IN_PLACE:
        return Verdict(OK, text)
    return Verdict(WARN, text, "see the line that `numamirror run` printed when it placed them")


def _judge_observed(status: MirrorStatus) -> Verdict:
    text = f"observed, nothing copied or moved{_locality_phrase(status)}"
    if status.locality is None or status.locality >= _IN_PLACE:
        return Verdict(OK, text)
    return Verdict(WARN, text, "start it with `numamirror run -- ...` to read locally")


def _judge_interleaved(status: MirrorStatus) -> Verdict:
    """Even, if no node has a quarter more or less than its part of the bytes."""
    parts, whole = used_copies(status), status.interleaved_bytes or 1
    shares = ", ".join(
        f"{percent(part.bytes / whole)} on {nodes_word(part.nodes)}" for part in parts
    )
    text = (
        f"interleaved: {size(status.interleaved_bytes)} at one copy, by a sample of its pages "
        f"{shares}{_locality_phrase(status)}"
    )
    spans = [len(parse_list(part.nodes)) for part in parts]
    due = [whole * span / sum(spans) for span in spans]
    if all(0.75 < part.bytes / d < 1.25 for part, d in zip(parts, due, strict=True)):
        return Verdict(OK, text)
    text = f"NOT {text.replace('interleaved', 'interleaved evenly', 1)}"
    return Verdict(WARN, text, "see the line that `numamirror run` printed when it placed them")


def _sampled_share(copies: Sequence[Copy]) -> float:
    """Share of all sampled pages that are where they belong; 0 when none was sampled."""
    pages = sum(copy.sampled_pages for copy in copies)
    return sum(copy.sampled_local for copy in copies) / pages if pages else 0.0


def _judge_misplaced(copy: Copy) -> Verdict:
    where = nodes_word(copy.nodes)
    if not copy.sampled_pages:
        why = errno.errorcode.get(copy.sample_errno, "no page was there to be asked")
        text = f"{where}: where the {copy.role}'s pages lie could not be sampled ({why})"
        return Verdict(WARN, text, "allow move_pages in the container's seccomp profile")
    lie = "lies" if copy.sampled_pages == 1 else "lie"
    text = (
        f"{where}: only {percent(copy.local_share)} of "
        f"{counted(copy.sampled_pages, 'sampled page')} of the {copy.role} {lie} there"
    )
    if copy.role == "primary":
        return Verdict(BAD, text, "start it with `numamirror run --copy-home -- ...`")
    return Verdict(BAD, text, f"free memory on {where}, then start it again")


def _judge_coverage(status: MirrorStatus, in_place: bool) -> Verdict:
    copies = used_copies(status)
    covered = (
        f"{counted(len(copies), 'copy')} of {size(status.mirrored_bytes)}, coverage "
        f"{percent(status.coverage)}{_reads_phrase(status)}{_locality_phrase(status)}"
    )
    reasons = ", ".join(_uncovered(status))
    rest = f"; not mirrored: {reasons}" if reasons else ""
    if not all(copy.sampled_pages for copy in copies):
        return Verdict(WARN, f"{covered}, and where the copies lie is not known{rest}")
    if not in_place:
        return Verdict(WARN, f"{covered}, but not all of it where it belongs{rest}")
    # What speed follows, where it is known.
    coverage = status.coverage if status.coverage_read is None else status.coverage_read
    if coverage >= _GOOD_COVERAGE:
        return Verdict(OK, f"mirrored: {covered}{rest}")
    level = BAD if coverage < _POOR_COVERAGE else WARN
    text = f"partly mirrored: {covered}{rest or '; no reason was given'}"
    return Verdict(level, text, _copy_small_ones(status))


def _copy_small_ones(status: MirrorStatus) -> str:
    """The remedy where small tensors are what is missing; a refusal says its own."""
    if status.small_bytes <= status.refused_bytes:
        return ""
    return "start it with `numamirror run --min-size 0 -- ...`: small tensors are copied too"


def _reads_phrase(status: MirrorStatus) -> str:
    if status.coverage == 1 or status.coverage_read is None:
        return ""
    return f" ({percent(status.coverage_read)} by reads)"


def _locality_phrase(status: MirrorStatus) -> str:
    if status.locality is None:
        return ""
    share = f"{percent(status.locality)} of {size(status.read_bytes)} read"
    # Pretend nodes have no memory to be local to.
    return f", {share} from the reader's copy" if status.rehearsal else f", locality {share}"


def _uncovered(status: MirrorStatus) -> Iterator[str]:
    if status.small_bytes:
        yield f"{size(status.small_bytes)} in tensors below the minimum size"
    if status.refused_bytes:
        why = f" ({status.reason})" if status.reason else ""
        yield f"{size(status.refused_bytes)} refused{why}"


def _copy_table(status: MirrorStatus) -> RenderableType:
    numbers = ("Bytes", "Sampled in place", "Read here", "Read elsewhere")
    table = plain_table("Node", "Role", *numbers, right=numbers)
    for copy in used_copies(status):
        table.add_row(
            f"{copy.nodes} (pretend)" if status.rehearsal else copy.nodes,
            copy.role,
            size(copy.bytes),
            _sample_text(copy),
            size(_read_from(status, copy)),
            size(_read_elsewhere(status, copy)),
        )
    return table


def _sample_text(copy: Copy) -> str:
    if not copy.sampled_pages:
        return "not sampled"
    return f"{copy.sampled_local} of {counted(copy.sampled_pages, 'page')}"


def _read_from(status: MirrorStatus, copy: Copy) -> int:
    """Bytes that threads on a copy's nodes read from it since the start."""
    return sum(
        reads.replica_bytes + reads.home_bytes + reads.shard_bytes
        for reads in _readers(status, copy)
    )


def _read_elsewhere(status: MirrorStatus, copy: Copy) -> int:
    """Bytes that threads on a copy's nodes read from the primary instead."""
    return sum(reads.other_bytes for reads in _readers(status, copy))


def _readers(status: MirrorStatus, copy: Copy) -> list[ThreadReads]:
    index = status.copies.index(copy)
    return [reads for reads in status.reads if reads.copy == index]


def _facts(status: MirrorStatus, ended: bool) -> Iterator[tuple[str, str]]:
    if status.sharded_bytes:
        yield "Sharded", f"{part_of(status.sharded_bytes, status.gemm_bytes)} that GEMM reads"
    elif status.interleaved_bytes:
        spread = part_of(status.interleaved_bytes, status.gemm_bytes)
        yield "Interleaved", f"{spread} that GEMM reads"
    elif 0 < status.coverage < 1:
        covered = part_of(status.mirrored_bytes, status.gemm_bytes)
        yield "Coverage", f"{percent(status.coverage)}: {covered} that GEMM reads"
        if status.coverage_read is not None:
            served = part_of(status.token_mirrored_bytes, status.token_bytes)
            yield "By reads", f"{percent(status.coverage_read)}: {served} that a token reads"
    if status.state == "freed" and not ended:
        yield "Freed", "the engine has freed these weights since: the figures are from before"
    uncovered = ", ".join(_uncovered(status))
    if uncovered and status.sharded_bytes:
        yield "Not placed", uncovered
    elif status.reason and not uncovered:
        yield "Reason", status.reason
    if uploaded := status.upload_replica_bytes + status.upload_primary_bytes:
        near = part_of(status.upload_replica_bytes, uploaded)
        yield "Uploads", f"to GPUs: {near} from the replica near the GPU"
    if status.uncounted_threads:
        yield "Not counted", uncounted_reads(status)
    if status.engine:
        # Its directory is in --json.
        yield "Engine", status.engine.rpartition("/")[2]


def _group_json(group: TensorGroup) -> dict[str, Any]:
    return {
        "name": group.name,
        "tensors": group.tensors,
        "bytes": group.bytes,
        "read_local_bytes": group.local_bytes,
        "read_elsewhere_bytes": group.other_bytes,
    }


def _copy_json(status: MirrorStatus, copy: Copy) -> dict[str, Any]:
    return {
        "role": copy.role,
        "nodes": copy.nodes,
        "bytes": copy.bytes,
        "sampled_pages": copy.sampled_pages,
        "sampled_local": copy.sampled_local,
        "read_bytes": _read_from(status, copy),
        "read_elsewhere_bytes": _read_elsewhere(status, copy),
    }
