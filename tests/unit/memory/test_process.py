"""A process that cannot be read is an error with a remedy, never an empty answer."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.memory.numa_maps import read_numa_maps
from numamirror_cli.memory.process import is_same, read_major_faults, read_process
from numamirror_cli.memory.threads import read_threads
from tests.unit.conftest import write
from tests.unit.launch.listener import eventually, state
from tests.unit.memory.as_nobody import as_nobody


@pytest.fixture
def sleeper():
    child = subprocess.Popen(["sleep", "60"])
    # The kernel lets Popen go on a little before name and arguments are in place.
    eventually(lambda: has_arguments(child.pid), "its arguments to be there")
    yield child
    child.kill()
    child.wait()


def has_arguments(pid: int) -> bool:
    return bool(Path(f"/proc/{pid}/cmdline").read_bytes())


def test_a_process_is_described_by_its_name_and_command_line(sleeper):
    process = read_process(sleeper.pid)
    assert (process.command, process.arguments) == ("sleep", ("sleep", "60"))
    assert process.parent == os.getpid()
    assert is_same(process)


def test_a_name_with_parentheses_and_blanks_is_read_whole(tmp_path):
    program = tmp_path / "a) R (b"
    program.symlink_to("/bin/sleep")
    child = subprocess.Popen([program, "60"])
    try:
        eventually(lambda: has_arguments(child.pid), "its arguments to be there")
        assert read_process(child.pid).command == "a) R (b"
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("stat", ["", "4711", "4711 (name) S", "4711 (name) S x 1 2"])
def test_a_stat_line_that_is_none_is_quoted(tmp_path, stat):
    write(tmp_path / "proc/4711/stat", stat)
    write(tmp_path / "proc/4711/cmdline", "name\0")
    with pytest.raises(NumaMirrorError) as raised:
        read_process(4711, tmp_path)
    assert raised.value.message == f"/proc/4711/stat: not understood: {stat!r}"
    with pytest.raises(NumaMirrorError, match="/proc/4711/stat: no number of major faults"):
        read_major_faults(4711, tmp_path)


def test_no_such_process():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    for act in (read_process, lambda pid: list(read_numa_maps(pid))):
        with pytest.raises(NumaMirrorError, match=f"^no process {child.pid}$"):
            act(child.pid)
    with pytest.raises(NumaMirrorError, match=f"^no process {child.pid}$"):
        read_threads(child.pid, {0: 0})


def test_a_process_that_ended_is_not_the_same_any_more(sleeper):
    process = read_process(sleeper.pid)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert not is_same(process), "a zombie has no memory left"


def test_a_pid_that_names_another_process_meanwhile_is_not_the_same(sleeper):
    assert not is_same(replace(read_process(sleeper.pid), started=1))


def test_another_users_process_may_not_be_read_and_its_owner_is_named(sleeper):
    said = as_nobody(lambda: list(read_numa_maps(sleeper.pid)))
    assert f"not allowed to read /proc/{sleeper.pid}/numa_maps" in said
    assert "(the process belongs to root)" in said


def test_p06_a_file_that_opens_and_may_not_be_read_is_not_an_empty_one(sleeper, tmp_path):
    # timerslack_ns is such a file: the kernel lets anybody open it and checks at read().
    directory = tmp_path / "proc" / str(sleeper.pid)
    directory.mkdir(parents=True)
    (directory / "numa_maps").symlink_to(f"/proc/{sleeper.pid}/timerslack_ns")
    for parent in tmp_path.resolve().parents:
        if parent != Path("/tmp") and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    for ours in (tmp_path, directory.parent, directory):
        ours.chmod(0o755)

    def act():
        with (directory / "numa_maps").open():
            pass  # it does open
        return list(read_numa_maps(sleeper.pid, tmp_path))

    assert "not allowed to read" in as_nobody(act)


def test_a_kernel_without_numa_is_told_apart_from_a_missing_process(tmp_path):
    directory = tmp_path / "proc/77"
    directory.mkdir(parents=True)
    with pytest.raises(NumaMirrorError, match=r"^no process 77$"):
        list(read_numa_maps(77, tmp_path))
    (directory / "stat").write_text("77 (engine) S 1")
    with pytest.raises(NumaMirrorError, match="this kernel has no NUMA") as raised:
        list(read_numa_maps(77, tmp_path))
    assert raised.value.hint and raised.value.exit_code == 1


def test_threads_are_counted_on_the_node_of_the_cpu_they_ran_on(sleeper):
    cpu, other = min(os.sched_getaffinity(0)), 4095
    code = (
        f"import os, threading\nos.sched_setaffinity(0, {{{cpu}}})\n"
        "e = threading.Event()\n"
        "for _ in range(3): threading.Thread(target=e.wait, daemon=True).start()\n"
        "print('up', flush=True); e.wait()"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout and child.stdout.readline()
    try:
        threads = read_threads(child.pid, {cpu: 5, other: 6})
        assert threads.running == {5: 4}
        assert threads.allowed_cpus == str(cpu)
        assert read_threads(child.pid, {other: 6}).unplaced == 4
    finally:
        child.kill()
        child.wait()


def test_threads_that_only_wait_do_not_count_as_computing():
    code = (
        "import os, threading, time\n"
        "e = threading.Event()\n"
        "for _ in range(3): threading.Thread(target=e.wait, daemon=True).start()\n"
        "end = time.process_time() + 0.5\n"
        "while time.process_time() < end: pass\n"
        "print('up', flush=True); e.wait()"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout and child.stdout.readline()
    try:
        threads = read_threads(child.pid, dict.fromkeys(range(os.cpu_count() or 1), 0))
        assert threads.running == {0: 4}
        assert threads.computing == {0: 1}
    finally:
        child.kill()
        child.wait()


def test_a_spinning_thread_is_busy_and_a_waiting_one_is_not(sleeper):
    eventually(lambda: state(sleeper.pid) == "S", "it to sleep")
    spinner = subprocess.Popen(
        [sys.executable, "-c", "print(1, flush=True)\nwhile 1: pass"], stdout=subprocess.PIPE
    )
    assert spinner.stdout and spinner.stdout.readline()
    nodes = dict.fromkeys(range(os.cpu_count() or 1), 0)
    try:
        assert read_threads(spinner.pid, nodes).busy == {0: 1}
        assert read_threads(sleeper.pid, nodes).busy == {}
    finally:
        spinner.kill()
        spinner.wait()
