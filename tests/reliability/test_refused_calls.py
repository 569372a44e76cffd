"""System calls that a real seccomp filter refuses or kills for: what runs on, and what is said."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest

from . import runs
from .engine_program import build, products, was_mirrored
from .refuse import CALLS

# What is done instead, in the line that names the call. Both copies lie on node 0, so that the
# run's own policy calls are made and the kernel is asked where pages are.
INSTEAD = {
    "set_mempolicy": "running without a policy: ",
    "get_mempolicy": "running without a policy of ours, since one of yours cannot be ruled out: ",
    "mbind": "replicas are filled by threads on their nodes, without a memory policy: ",
    "move_pages": "get_mempolicy is asked where pages lie, one by one: ",
    "sched_setaffinity": "replicas are filled by threads that run anywhere: ",
    "memfd_create": "the status page is an unnamed file in /dev/shm: ",
}
CAUSES = {
    "EPERM": "blocked by the container's seccomp profile (give the container ",
    "ENOSYS": "this kernel ",
}


@pytest.mark.parametrize("code", CAUSES)
@pytest.mark.parametrize("call", INSTEAD)
def test_one_refused_call_is_named_once_and_the_weights_are_mirrored(
    call: str, code: str, engine: tuple[str, ...], tmp_path: Path
) -> None:
    run = runs.run_mirrored(
        tmp_path,
        engine,
        *("--copy-home", "--min-size", "1"),
        launcher=runs.TWO_COPIES,
        under=runs.refusing(f"{call}={code}"),
    )
    assert run.line == runs.plain_line(engine)
    [line] = run.naming(f"{call}: {code}")
    assert line.startswith(f"{INSTEAD[call]}{call}: {code}: {CAUSES[code]}")
    assert ("allows " + call in line) == (code == "EPERM")
    assert run.coverage == 1.0
    assert run.verdict[0].startswith("mirrored: 2 copies")


def test_a_node_that_the_kernel_finds_invalid_is_told_from_a_call_that_it_refuses(
    engine: tuple[str, ...], tmp_path: Path
) -> None:
    """As when the cpuset loses that node while the program runs."""
    run = runs.run_mirrored(
        tmp_path,
        engine,
        *("--copy-home", "--min-size", "1"),
        launcher=runs.TWO_COPIES,
        under=runs.refusing("mbind=EINVAL"),
    )
    assert run.line == runs.plain_line(engine)
    [line] = run.naming("mbind: EINVAL")
    status = Path("/proc/self/status").read_text()
    [allowed] = re.findall(r"^Mems_allowed_list:\s*(\S+)$", status, re.MULTILINE)
    assert f"likely a node outside Mems_allowed_list ({allowed}) (widen cpuset.mems" in line
    assert run.coverage == 1.0


@pytest.mark.parametrize("code", CAUSES)
def test_all_calls_refused_together_leave_the_program_alone_and_nothing_is_claimed(
    code: str, engine: tuple[str, ...], tmp_path: Path
) -> None:
    run = runs.run_mirrored(
        tmp_path,
        engine,
        *("--copy-home", "--min-size", "1"),
        launcher=runs.TWO_COPIES,
        under=runs.refusing(*(f"{call}={code}" for call in INSTEAD)),
    )
    assert run.line == runs.plain_line(engine)
    for call in INSTEAD.keys() - {"set_mempolicy"}:  # never tried, when none can be asked for
        assert len(run.naming(f"{call}: {code}")) == 1
    assert not any(text.startswith("mirrored") for text in run.verdict)
    assert any("where the copies lie is not known" in text for text in run.verdict)


def test_copies_whose_pages_cannot_be_asked_for_are_not_called_local(
    engine: tuple[str, ...], tmp_path: Path
) -> None:
    run = runs.run_mirrored(
        tmp_path,
        engine,
        *("--copy-home", "--min-size", "1"),
        launcher=runs.TWO_COPIES,
        under=runs.refusing("move_pages=EPERM", "get_mempolicy=EPERM"),
    )
    assert run.line == runs.plain_line(engine)
    assert run.naming("where pages lie is not known: get_mempolicy is refused too: move_pages")
    assert run.record["mirror"]["locality"] == 0.0
    assert not any(text.startswith("mirrored") for text in run.verdict)


@pytest.mark.parametrize("code", CAUSES)
def test_without_sockets_and_placement_calls_the_page_is_found_in_proc(
    code: str, libllama_engine: tuple[str, ...], tmp_path: Path
) -> None:
    refused = runs.refusing(*(f"{call}={code}" for call in CALLS))
    run = runs.run_mirrored(tmp_path, libllama_engine, *runs.REHEARSED, under=refused)
    assert run.line == runs.plain_line(libllama_engine)
    assert run.coverage == 1.0
    assert run.naming("coverage 100 %")  # said live


def test_without_sockets_a_program_that_ends_at_once_is_not_missed(
    libllama: Path, tmp_path: Path
) -> None:
    """Shorter than any search from time to time would notice."""
    short = build(libllama, tmp_path)
    refused = runs.refusing("socket=EPERM")
    run = runs.run_mirrored(tmp_path, (short, libllama), *runs.REHEARSED, under=refused)
    assert products(run) == products(runs.run((short, libllama)))
    assert was_mirrored(run)


@pytest.mark.parametrize("deadly", [("mbind",), ("get_mempolicy", "socket"), CALLS], ids=len)
def test_calls_that_a_filter_kills_for_are_not_made(
    deadly: tuple[str, ...], libllama_engine: tuple[str, ...], tmp_path: Path
) -> None:
    """A unit's SystemCallFilter= kills unless it is told an errno."""
    under = runs.refusing(*(f"{call}=KILL" for call in deadly))
    run = runs.run_mirrored(tmp_path, libllama_engine, *runs.REHEARSED, under=under)
    assert run.line == runs.plain_line(libllama_engine)
    [line] = run.naming("a seccomp filter kills for ")
    assert line.startswith("running without a policy and without the shim: ")
    assert all(call in line for call in deadly)
    assert run.verdict[0].startswith("NOT mirrored: ")


def test_a_filter_that_kills_for_a_call_of_ours_is_a_real_one() -> None:
    """The control: the call is made, and the process ends by SIGSYS."""
    call = "import socket; socket.socket()"
    killed = runs.run((*runs.refusing("socket=KILL"), sys.executable, "-c", call))
    assert killed.code == -signal.SIGSYS
