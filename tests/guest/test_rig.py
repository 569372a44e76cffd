"""The rig itself: it must never wait for ever, and must say what failed or is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from . import kernel
from .catalogue import ONE_NODE
from .conftest import Boot
from .missing import Missing
from .vm import GuestFailure, Result, Step, boot

TALK = """
import socket
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname(), timeout=60)
"""


@pytest.fixture(scope="module")
def results(boot_guest: Boot) -> dict[str, Result]:
    return boot_guest(
        ONE_NODE,
        [
            Step("fails", ("sh", "-c", "echo out; echo err >&2; exit 3")),
            Step("hangs", ("sh", "-c", "echo before; sleep 1000 & wait"), limit=5),
            Step("is unknown", ("/no/such/program",)),
            Step("talks to itself", (sys.executable, "-c", TALK)),
            Step("has cgroups", ("cat", "/sys/fs/cgroup/cgroup.controllers")),
        ],
    )


def test_a_step_brings_its_output_and_its_exit_status(results: dict[str, Result]) -> None:
    result = results["fails"]
    assert (result.stdout, result.stderr, result.code) == ("out\n", "err\n", 3)


def test_a_step_that_hangs_is_ended_and_the_next_ones_run(results: dict[str, Result]) -> None:
    result = results["hangs"]
    assert result.timed_out
    assert result.stdout == "before\n"
    assert result.seconds < 500


def test_a_program_that_does_not_exist_is_a_result_like_any_other(
    results: dict[str, Result],
) -> None:
    assert results["is unknown"].code == 127
    assert "/no/such/program" in results["is unknown"].stderr


def test_loopback_is_up_for_engines_that_serve(results: dict[str, Result]) -> None:
    assert results["talks to itself"].code == 0, results["talks to itself"]


def test_cpusets_are_at_hand(results: dict[str, Result]) -> None:
    assert "cpuset" in results["has cgroups"].stdout.split()


def test_a_guest_that_does_not_come_to_its_end_names_the_step(tmp_path: Path) -> None:
    try:
        with pytest.raises(
            GuestFailure, match=r"one node: no result of sleeps; stopped after \d+ s"
        ):
            boot(ONE_NODE, [Step("sleeps", ("sleep", "1000"))], tmp_path, limit=1)
    except Missing as reason:
        pytest.skip(str(reason))


def test_a_kernel_that_panics_shows_its_last_words(tmp_path: Path) -> None:
    crash = Step(
        "crash", ("sh", "-c", "echo 1 > /proc/sys/kernel/sysrq; echo c > /proc/sysrq-trigger")
    )
    try:
        with pytest.raises(GuestFailure, match="sysrq_handle_crash"):
            boot(ONE_NODE, [crash], tmp_path, limit=600)
    except Missing as reason:
        pytest.skip(str(reason))


def test_a_machine_without_apt_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(Missing, match=r"apt-get .* is missing"):
        kernel.find_kernel()


def test_a_machine_without_qemu_is_told_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match=r"qemu-system-x86_64 .*: sudo apt-get install"):
        kernel.find_qemu()


def test_a_kernel_whose_unpacking_was_cut_short_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = kernel.cache_directory()
    (cache / "unpacking-x" / "root" / "boot").mkdir(parents=True)
    (cache / "unpacking-x" / "root" / "boot" / "vmlinuz-9.9").touch()
    (cache / "root-8.8" / "boot").mkdir(parents=True)
    (cache / "root-8.8" / "boot" / "vmlinuz-8.8").touch()  # no modules beside it
    assert kernel.unpacked_kernels(cache) == []
