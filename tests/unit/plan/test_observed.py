"""What the shim counted while it observed, as shares with an error and as what would help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from numamirror_cli.memory.status_page import Copy, MirrorStatus, TensorGroup, ThreadReads
from numamirror_cli.plan.bandwidth import bandwidth_by_hand
from numamirror_cli.plan.observed import observed_reads, share_error, speed_against_now
from numamirror_cli.plan.predict import FIXED_CPU, Reader
from numamirror_cli.report.observe import render_observed

GIB = 1 << 30
MACHINE = Reader(bandwidth_by_hand("local=137,remote=47.7", (0, 1)), {0: 32, 1: 32}, home=0)


def reads(copy: int | None, local: int, elsewhere: int, tid: int = 1) -> ThreadReads:
    return ThreadReads(tid, copy, 0, 0, elsewhere, 0, 0, 0, shard_bytes=local)


def status(*threads: ThreadReads, tensors: int = 100, tokens: int = 10) -> MirrorStatus:
    copies = tuple(Copy(node, str(node), "unused", 0, 0, 0, 0, 0, 0) for node in (0, 1))
    return MirrorStatus(
        pid=1,
        state="observed",
        reason="",
        engine="/x/libggml.so",
        rehearsal=0,
        home=0,
        gemm_tensors=tensors,
        gemm_bytes=GIB,
        mirrored_bytes=0,
        small_bytes=0,
        refused_bytes=0,
        arena_bytes=0,
        built_unix_ns=0,
        copies=copies,
        threads=tuple(each for each in threads if each.tid),
        retired=tuple(each for each in threads if not each.tid),
        observed_bytes=GIB,
        placement_unix_ns=int(1000e9),
        decode_graphs=tokens,
        decode_bytes=tokens * GIB // 2,
    )


def test_all_weights_on_one_node_are_local_to_half_of_the_reads() -> None:
    seen = observed_reads(status(reads(0, GIB, 0), reads(1, 0, GIB, tid=2)))
    assert [node.share for node in seen.nodes] == [1.0, 0.0]
    assert seen.share == 0.5
    assert seen.per_token == GIB / 2


def test_reads_of_ended_threads_count_too() -> None:
    seen = observed_reads(status(reads(0, GIB, 0), reads(0, 0, 3 * GIB, tid=0)))
    assert seen.nodes[0].bytes == 4 * GIB
    assert seen.nodes[0].threads == 1
    assert seen.share == 0.25


def test_the_error_shrinks_with_the_number_of_tensors_and_never_vanishes() -> None:
    few, many = (share_error(0.5, status(tensors=n)) for n in (1, 10_000))
    assert few == pytest.approx(1.96 * 0.5 / 8 + 1 / 256)
    assert 1 / 256 < many < 0.01 < few
    assert share_error(1.0, status()) > 1 / 256


def test_a_mirror_would_undo_what_is_remote_and_nothing_more() -> None:
    on_one_node = observed_reads(status(reads(0, GIB, 0), reads(1, 0, GIB, tid=2)))
    local = observed_reads(status(reads(0, GIB, 0), reads(1, GIB, 0, tid=2)))
    gain = speed_against_now("mirror", on_one_node, MACHINE, FIXED_CPU)
    none = speed_against_now("mirror", local, MACHINE, FIXED_CPU)
    assert gain is not None
    assert none is not None
    assert gain.low > 1.3
    assert (none.low, none.high) == (1.0, 1.0)
    assert speed_against_now("shard", on_one_node, MACHINE, FIXED_CPU) == gain
    half = speed_against_now("interleave", local, MACHINE, FIXED_CPU)
    assert half is not None
    assert half.high < 1


def test_speeds_are_not_made_up_for_nodes_that_were_not_seen() -> None:
    only_one = observed_reads(status(reads(0, GIB, 0)))
    assert speed_against_now("mirror", only_one, MACHINE, FIXED_CPU) is None


def shown(found: MirrorStatus, machine: Reader | None, capsys: pytest.CaptureFixture[str]) -> str:
    from numamirror_cli.report.console import print_report

    print_report(render_observed(found, machine, now=1030.0))
    return capsys.readouterr().out


def test_the_page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = shown(status(reads(0, GIB, 0), reads(1, 0, GIB, tid=2)), MACHINE, capsys)
    lines = [line.split() for line in page.splitlines()]
    assert page.startswith(
        "GEMM read 512 MiB per token (10 tokens), of weights of 1 GiB in 100 tensors\n"
        "Their placement was not seen to change for the last 30 s\n"
    )
    assert ["0", "1", "1", "GiB", "100", "%", "0", "%"] in lines
    assert ["1", "1", "1", "GiB", "0", "%", "100", "%"] in lines
    (total,) = [line for line in page.splitlines() if line.startswith("all")]
    assert "50 % ± 1.6 %" in total
    (mirror,) = [line for line in page.splitlines() if line.startswith("mirror")]
    assert "x 1.4 to 2.9" in mirror
    assert max(map(len, page.splitlines())) <= 80


def test_nothing_read_is_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    page = shown(status(tokens=0), MACHINE, capsys)
    assert "Node" not in page
    assert "per token" not in page


def test_without_a_bench_shares_are_shown_and_speeds_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = shown(status(reads(0, GIB, 0), reads(1, 0, GIB, tid=2)), None, capsys)
    assert "numamirror bench measures the machine" in page


def test_the_tensors_that_were_read_from_elsewhere_are_named_the_most_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    groups = [TensorGroup(f"blk.*.a_long_name_{n}.weight", 3, GIB, GIB, n * GIB) for n in range(10)]
    groups.append(TensorGroup("*", 7, GIB, 0, GIB // 2))
    found = replace(status(reads(0, GIB, 0), reads(1, 0, GIB, tid=2)), groups=tuple(groups))
    page = shown(found, None, capsys)
    rows = [line.split() for line in page.splitlines() if line.startswith("blk.")]
    assert [row[0] for row in rows] == [f"blk.*.a_long_name_{n}.weight" for n in range(9, 1, -1)]
    assert rows[0][1:] == ["3", "1", "GiB", "9", "GiB", "90", "%"]
    assert max(map(len, page.splitlines())) <= 80


def test_where_all_was_local_no_tensors_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    found = replace(status(reads(0, GIB, 0)), groups=(TensorGroup("output", 1, GIB, GIB, 0),))
    assert "output" not in shown(found, None, capsys)


@pytest.mark.parametrize(
    ("seconds", "said"), [(2.9, "2.9 s"), (119, "120 s"), (840, "14 min"), (9000, "2.5 h")]
)
def test_how_long_ago_pages_moved_has_a_unit_that_a_person_would_choose(
    seconds: float, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = replace(status(), placement_unix_ns=int((1030 - seconds) * 1e9))
    assert f"not seen to change for the last {said}\n" in shown(found, None, capsys)


def test_a_rehearsal_is_labelled(capsys: pytest.CaptureFixture[str]) -> None:
    page = shown(replace(status(), rehearsal=2), None, capsys)
    assert page.startswith("A rehearsal with 2 pretend nodes: no reads are nearer than others\n")


def test_what_the_kernel_did_not_say_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    page = shown(replace(status(), observed_bytes=GIB // 2), None, capsys)
    assert "The kernel said where 512 MiB of them are" in page


def test_a_name_from_a_model_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    groups = (TensorGroup("[/red]blk[bold].weight", 1, GIB, 0, GIB),)
    found = replace(status(reads(0, GIB, GIB)), groups=groups)
    assert "[/red]blk[bold].weight" in shown(found, None, capsys)
