"""The mirror's table, JSON and verdict say what was checked, and no more."""

from __future__ import annotations

import errno
import io
from dataclasses import replace

from rich.console import Console

from numamirror_cli.figures import percent
from numamirror_cli.memory.status_page import Copy, MirrorStatus, ThreadReads
from numamirror_cli.report.mirror import judge_mirror, mirror_json, render_mirror
from numamirror_cli.report.observe import render_observed
from numamirror_cli.report.verdict import render_verdicts

MIB = 1 << 20
NO_READS = ThreadReads(0, None, 0, 0, 0, 0, 0, 0)

MIRRORED = MirrorStatus(
    pid=4711,
    state="mirrored",
    reason="",
    engine="/opt/llama/libggml-cpu.so",
    rehearsal=0,
    home=1,
    gemm_tensors=127,
    gemm_bytes=235 * MIB,
    mirrored_bytes=235 * MIB,
    small_bytes=0,
    refused_bytes=0,
    arena_bytes=236 * MIB,
    built_unix_ns=1,
    copies=(
        Copy(0, "0", "replica", 235 * MIB, 140_000_000, 2, 512, 512, 0),
        Copy(1, "1", "primary", 235 * MIB, 0, 0, 512, 512, 0),
    ),
    threads=(
        ThreadReads(11, 0, 600 * MIB, 0, 0, 40, 0, 0),
        ThreadReads(12, 1, 0, 600 * MIB, 0, 40, 0, 0),
    ),
    retired=(),
)


def test_uploads_are_told_once_there_are_any() -> None:
    assert "Uploads" not in printed(render_mirror(MIRRORED))
    uploading = replace(MIRRORED, upload_replica_bytes=3 * MIB, upload_primary_bytes=MIB)
    assert "Uploads  to GPUs: 3 of 4 MiB from the replica near the GPU" in printed(
        render_mirror(uploading)
    )
    assert mirror_json(uploading)["upload_replica_bytes"] == 3 * MIB


def test_threads_whose_reads_nobody_counted_are_told_of() -> None:
    assert "Not counted" not in printed(render_mirror(MIRRORED))
    crowded = replace(MIRRORED, uncounted_threads=12)
    told = "Not counted  reads of 12 threads (over 1024 at once, or behind a seccomp filter)"
    assert told in printed(render_mirror(crowded)).splitlines()
    assert mirror_json(crowded)["uncounted_threads"] == 12
    observed = replace(crowded, state="observed", mirrored_bytes=0, observed_bytes=235 * MIB)
    told = "Not counted: reads of 12 threads (over 1024 at once, or behind a seccomp filter)"
    assert told in printed(render_observed(observed, None, now=1.0)).splitlines()


def test_observed_reads_that_are_not_local_come_with_what_would_make_them_so() -> None:
    half = replace(
        MIRRORED,
        state="observed",
        mirrored_bytes=0,
        threads=(ThreadReads(11, 0, 0, 50 * MIB, 50 * MIB, 40, 0, 0),),
    )
    (verdict,) = judge_mirror(half)
    assert verdict.text.startswith("observed, nothing copied or moved, locality 50 %")
    assert verdict.remedy == "start it with `numamirror run -- ...` to read locally"


def test_what_the_error_of_an_observed_share_covers_is_said_below_it() -> None:
    observed = replace(MIRRORED, state="observed", mirrored_bytes=0, observed_bytes=235 * MIB)
    lines = printed(render_observed(observed, None, now=1.0)).splitlines()
    (sums,) = (number for number, line in enumerate(lines) if "±" in line and line[:3] == "all")
    assert lines[sums + 1] == (
        "(±: by sampling, at 95 %; what moved or came in between samples is not in it)"
    )


def printed(renderable: object) -> str:
    console = Console(file=io.StringIO(), width=80, color_system=None, force_terminal=False)
    console.print(renderable)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def said(status: MirrorStatus) -> str:
    return printed(render_verdicts(judge_mirror(status)))


def with_copy(index: int, **changes: object) -> MirrorStatus:
    copies = list(MIRRORED.copies)
    copies[index] = replace(copies[index], **changes)
    return replace(MIRRORED, copies=tuple(copies))


def test_a_whole_mirror_reads_like_this():
    assert printed(render_mirror(MIRRORED)) == (
        "Node  Role       Bytes  Sampled in place  Read here  Read elsewhere\n"
        "0     replica  235 MiB  512 of 512 pages    600 MiB             0 B\n"
        "1     primary  235 MiB  512 of 512 pages    600 MiB             0 B\n"
        "\n"
        "Engine  libggml-cpu.so"
    )
    assert said(MIRRORED) == (
        "ok: mirrored: 2 copies of 235 MiB, coverage 100 %, locality 100 % of 1.2 GiB read"
    ).replace(" read", "\nread")


def test_the_json_has_the_agreed_keys():
    mirror = mirror_json(MIRRORED)
    assert mirror["nodes"]["1"] == {
        "role": "primary",
        "nodes": "1",
        "bytes": 235 * MIB,
        "sampled_pages": 512,
        "sampled_local": 512,
        "read_bytes": 600 * MIB,
        "read_elsewhere_bytes": 0,
    }
    agreed = {"engine", "gemm_bytes", "mirrored_bytes", "coverage", "locality", "rehearsal"}
    assert agreed <= set(mirror)
    assert (mirror["coverage"], mirror["locality"], mirror["rehearsal"]) == (1.0, 1.0, False)


def test_a_replica_that_lies_elsewhere_is_never_called_mirrored():
    status = with_copy(0, sampled_local=205)
    verdict = said(status)
    assert "bad: node 0: only 40 % of 512 sampled pages of the replica lie there" in verdict
    assert "ok" not in verdict
    assert "mirrored:" not in verdict


def test_a_replica_that_could_not_be_sampled_is_never_called_mirrored():
    verdict = said(with_copy(0, sampled_pages=0, sampled_local=0, sample_errno=errno.EPERM))
    assert "could not be sampled (EPERM)" in verdict
    assert "mirrored:" not in verdict


def test_a_primary_off_home_is_bad_and_says_what_to_do():
    verdict = said(with_copy(1, sampled_local=0))
    assert "bad: node 1: only 0 % of 512 sampled pages of the primary lie there" in verdict
    assert "--copy-home" in verdict


def test_what_is_not_covered_is_said_with_the_reason():
    status = replace(
        MIRRORED,
        state="partial",
        mirrored_bytes=135 * MIB,
        small_bytes=10 * MIB,
        refused_bytes=90 * MIB,
        reason="node 0 has 100 MiB free, 190 MiB are needed",
    )
    verdict = " ".join(said(status).split())
    assert verdict.startswith("warn: partly mirrored: 2 copies of 135 MiB, coverage 57 %")
    assert (
        "; not mirrored: 10 MiB in tensors below the minimum size, 90 MiB refused (node 0 has"
    ) in verdict


def test_where_small_tensors_are_what_is_missing_the_option_that_copies_them_is_named():
    small = replace(MIRRORED, mirrored_bytes=179 * MIB, small_bytes=56 * MIB)
    assert "numamirror run --min-size 0" in said(small)
    full = replace(small, mirrored_bytes=135 * MIB, small_bytes=10 * MIB, refused_bytes=90 * MIB)
    assert "--min-size" not in said(full)


def test_a_partial_mirror_is_judged_by_what_a_token_reads_of_it():
    status = replace(
        MIRRORED,
        state="partial",
        reason="the budget leaves 100 MiB for a replica of 235 MiB: raise --budget by 135 MiB",
        mirrored_bytes=100 * MIB,
        refused_bytes=135 * MIB,
        token_bytes=40 * MIB,
        token_mirrored_bytes=30 * MIB,
    )
    assert "By reads  75 %: 30 of 40 MiB that a token reads" in printed(render_mirror(status))
    assert "coverage 43 % (75 % by reads)" in said(status)
    assert said(status).startswith("warn: partly mirrored")  # below half by bytes would be bad
    assert mirror_json(status)["coverage_read"] == 0.75
    assert mirror_json(MIRRORED)["coverage_read"] is None


def test_below_half_coverage_the_verdict_is_bad():
    status = replace(MIRRORED, state="partial", mirrored_bytes=100 * MIB)
    assert said(status).startswith("bad: partly mirrored")


def test_states_before_and_without_a_mirror_are_told_apart():
    bare = replace(MIRRORED, copies=(), mirrored_bytes=0, gemm_bytes=0, threads=())
    assert "no engine has computed" in said(replace(bare, state="waiting"))
    assert "being built" in said(replace(bare, state="building"))
    off = said(replace(bare, state="off", reason="seams do not fire in libggml.so"))
    assert off == "bad: NOT mirrored: seams do not fire in libggml.so"
    assert said(replace(bare, state="inert", reason="unknown version 9")).startswith("bad: NOT")


def test_shards_whose_pages_were_never_sampled_are_not_called_local():
    status = with_copy(0, role="shard", sampled_pages=0, sampled_local=0)
    verdict = said(replace(status, copies=status.copies[:1], state="sharded"))
    assert verdict.startswith("warn: sharded")
    assert "0 % of its pages" in verdict


def test_a_mirror_whose_model_was_freed_is_judged_by_the_figures_from_before():
    assert said(replace(MIRRORED, state="freed")) == said(MIRRORED)


def test_a_freed_model_that_was_not_mirrored_is_not_called_so_and_keeps_its_reason():
    freed = replace(MIRRORED, state="freed", mirrored_bytes=0, refused_bytes=235 * MIB, reason="so")
    assert said(freed) == "bad: NOT mirrored: so"
    assert said(replace(freed, mirrored_bytes=200 * MIB, refused_bytes=35 * MIB)).startswith(
        "warn: partly mirrored: 2 copies of 200 MiB"
    )


def test_a_rehearsal_is_labelled_everywhere():
    status = replace(MIRRORED, rehearsal=2)
    assert "0 (pretend)" in printed(render_mirror(status))
    assert "rehearsal with 2 pretend nodes" in said(status)
    assert mirror_json(status)["rehearsal"] is True


def test_reads_that_bypass_the_copies_lower_the_locality():
    status = replace(MIRRORED, retired=(replace(NO_READS, other_bytes=1200 * MIB),))
    assert "locality 50 % of 2.3 GiB read" in said(status).replace("\n", " ")


def test_a_hundred_per_cent_is_said_of_all_only():
    assert [percent(share) for share in (1.0, 0.9999, 0.994, 0.47, 0.004, 1e-9, 0.0)] == [
        "100 %",
        "99.9 %",
        "99.4 %",
        "47 %",
        "0.4 %",
        "<0.1 %",
        "0 %",
    ]


def test_a_rehearsed_shard_is_not_said_to_lie_anywhere():
    shards = tuple(replace(copy, role="shard") for copy in MIRRORED.copies)
    status = replace(MIRRORED, state="sharded", sharded_bytes=235 * MIB, copies=shards, rehearsal=2)
    assert "shard rehearsed with 2 pretend nodes" in said(status).replace("\n", " ")
    assert "of their reader" not in said(status)
    assert "of their reader" in said(replace(status, rehearsal=0)).replace("\n", " ")


def interleaved(first: int, second: int) -> MirrorStatus:
    """So many MiB on node 0 and on node 1, as far as a sample tells."""
    parts = tuple(
        replace(copy, role="part", bytes=there * MIB, sampled_local=256)
        for copy, there in zip(MIRRORED.copies, (first, second), strict=True)
    )
    whole = (first + second) * MIB
    return replace(
        MIRRORED, state="interleaved", interleaved_bytes=whole, mirrored_bytes=0, copies=parts
    )


def test_an_interleaved_copy_is_told_by_where_its_pages_are():
    even, uneven = said(interleaved(115, 120)), said(interleaved(230, 5))
    assert even.startswith("ok: interleaved: 235 MiB at one copy, by a sample of its pages")
    assert "49 % on node 0, 51 % on node 1" in even.replace("\n", " ")
    assert uneven.startswith("warn: NOT interleaved evenly")
    assert "Interleaved  235 of 235 MiB" in printed(render_mirror(interleaved(117, 118)))
    assert mirror_json(interleaved(117, 118))["nodes"]["0"]["role"] == "part"


def test_a_shard_shows_its_rows_by_node_and_speaks_of_no_coverage():
    shards = tuple(
        replace(copy, role="shard", bytes=118 * MIB, sampled_pages=30208, sampled_local=30100)
        for copy in MIRRORED.copies
    )
    reads = tuple(
        replace(NO_READS, tid=11 + n, copy=n, shard_bytes=594 * MIB, other_bytes=6 * MIB)
        for n in (0, 1)
    )
    status = replace(
        MIRRORED,
        state="sharded",
        sharded_bytes=235 * MIB,
        mirrored_bytes=0,
        copies=shards,
        threads=reads,
    )
    assert printed(render_mirror(status)) == (
        "Node  Role     Bytes      Sampled in place  Read here  Read elsewhere\n"
        "0     shard  118 MiB  30100 of 30208 pages    594 MiB           6 MiB\n"
        "1     shard  118 MiB  30100 of 30208 pages    594 MiB           6 MiB\n"
        "\n"
        "Sharded  235 of 235 MiB that GEMM reads\n"
        "Engine   libggml-cpu.so"
    )
    shown = mirror_json(status)
    assert shown["sharded_bytes"] == 235 * MIB
    assert shown["nodes"]["1"]["role"] == "shard"
    assert shown["nodes"]["1"]["read_elsewhere_bytes"] == 6 * MIB
