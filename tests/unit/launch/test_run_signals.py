"""Every signal reaches the program once, whoever sent it, and to whom."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence

import pytest

from numamirror_cli.launch.signals import PASSED_ON
from tests.unit.launch.conftest import NUMAMIRROR, environment, numamirror_run
from tests.unit.launch.listener import (
    PATIENCE,
    Listener,
    children,
    eventually,
    listener,
    listener_program,
    parent,
    state,
)

__all__ = ["listener", "listener_program"]

ALL = sorted(PASSED_ON)
EACH = pytest.mark.parametrize("number", ALL, ids=lambda number: number.name)
Processes = list[subprocess.Popen[str]]


def patient(patience: str) -> list[str]:
    """`numamirror` that waits a minute where it waits for others, on a machine that does something
    else. patience: a variable of numamirror_cli.launch."""
    code = "from numamirror_cli.cli import main; from numamirror_cli.launch import child, signals; "
    return [sys.executable, "-c", f"{code}{patience} = 60.0; main()"]


def start(
    processes: Processes, command: list[str], numamirror: Sequence[str] = NUMAMIRROR
) -> subprocess.Popen[str]:
    """`numamirror run COMMAND` in a session, and so a process group, of its own."""
    process = subprocess.Popen(
        [*numamirror, "run", "--report", "none", *command],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    processes.append(process)
    return process


@EACH
def test_a_signal_to_the_launcher_reaches_the_program_once(
    number: signal.Signals, listener: Listener, processes: Processes
) -> None:
    launcher = start(processes, listener.command(*ALL))
    program = listener.wait_until_ready()
    os.kill(launcher.pid, number)
    assert listener.eventually_heard(number.name) == [number.name]
    os.kill(program, signal.SIGKILL)
    assert launcher.wait(PATIENCE) == 128 + signal.SIGKILL


@EACH
def test_a_signal_to_the_whole_group_reaches_the_program_once(
    number: signal.Signals, listener: Listener, processes: Processes
) -> None:
    launcher = start(processes, listener.command(*ALL))
    listener.wait_until_ready()
    os.killpg(launcher.pid, number)
    assert listener.eventually_heard(number.name) == [number.name]
    # And again, so that the first one was not just remembered.
    os.killpg(launcher.pid, number)
    assert listener.heard(2) == [number.name] * 2
    os.kill(launcher.pid, number)
    assert listener.heard(3) == [number.name] * 3


def test_a_signal_to_each_process_of_a_unit_reaches_the_program_once(
    listener: Listener, processes: Processes
) -> None:
    """What systemd does on `stop`: KillMode=control-group, one kill(2) after the other."""
    launcher = start(processes, listener.command(*ALL), patient("signals._WITNESS_PATIENCE"))
    program = listener.wait_until_ready()
    for pid in (launcher.pid, *children(launcher.pid)):
        os.kill(pid, signal.SIGTERM)
    assert program in children(launcher.pid)
    assert listener.eventually_heard("SIGTERM") == ["SIGTERM"]


def test_a_program_in_a_group_of_its_own_gets_what_our_group_gets(
    listener: Listener, processes: Processes
) -> None:
    if not shutil.which("setsid"):
        pytest.skip("setsid is not installed")
    launcher = start(processes, ["setsid", *listener.command(*ALL)])
    listener.wait_until_ready()
    os.killpg(launcher.pid, signal.SIGTERM)
    assert listener.eventually_heard("SIGTERM") == ["SIGTERM"]


def test_twenty_signals_in_a_row_are_twenty(listener: Listener, processes: Processes) -> None:
    launcher = start(processes, listener.command(*ALL))
    listener.wait_until_ready()
    for count in range(1, 21):
        os.kill(launcher.pid, signal.SIGUSR1)
        eventually(lambda count=count: len(listener._text().splitlines()) > count, "SIGUSR1")
    assert listener.heard() == ["SIGUSR1"] * 20


def test_a_signal_that_the_program_does_not_handle_ends_it_and_is_our_status(
    listener: Listener, processes: Processes
) -> None:
    launcher = start(processes, listener.command())
    listener.wait_until_ready()
    os.kill(launcher.pid, signal.SIGTERM)
    assert launcher.wait(PATIENCE) == 128 + signal.SIGTERM


def test_killing_the_launcher_leaves_the_program_running_and_nothing_else(
    listener: Listener, processes: Processes
) -> None:
    launcher = start(processes, listener.command())
    program = listener.wait_until_ready()
    others = [pid for pid in children(launcher.pid) if pid != program]
    launcher.kill()
    launcher.wait()
    eventually(lambda: all(state(pid) in ("", "Z") for pid in others), "the witness to end")
    eventually(lambda: state(program) == "S", "the program to run on")
    os.kill(program, signal.SIGKILL)


def test_nothing_is_left_when_the_program_has_ended(
    listener: Listener, processes: Processes
) -> None:
    launcher = start(processes, listener.command())
    listener.wait_until_ready()
    family = children(launcher.pid)
    assert family
    listener.end()
    assert launcher.wait(PATIENCE) == 42
    assert [pid for pid in family if state(pid)] == []


def test_a_program_that_was_stopped_by_itself_does_not_stop_us(
    listener: Listener, processes: Processes
) -> None:
    """Whoever stops the program alone (a debugger, an administrator) will wake it alone."""
    launcher = start(processes, listener.command())
    program = listener.wait_until_ready()
    os.kill(program, signal.SIGSTOP)
    eventually(lambda: state(program) == "T", "the program to stop")
    listener.heard()
    assert state(launcher.pid) != "T"
    os.kill(program, signal.SIGCONT)
    listener.end()
    assert launcher.wait(PATIENCE) == 42


def test_a_sigtstp_that_sigcont_took_back_does_not_stop_us_later(
    listener: Listener, processes: Processes
) -> None:
    launcher = start(processes, listener.command(*ALL))
    program = listener.wait_until_ready()
    os.kill(launcher.pid, signal.SIGTSTP)
    listener.eventually_heard("SIGTSTP")
    os.kill(launcher.pid, signal.SIGCONT)
    listener.eventually_heard("SIGCONT")
    os.kill(program, signal.SIGSTOP)
    eventually(lambda: state(program) == "T", "the program to stop")
    listener.heard()
    assert state(launcher.pid) != "T"


def test_stopping_and_continuing_the_launcher_alone_stops_and_continues_both(
    listener: Listener, processes: Processes
) -> None:
    launcher = start(processes, listener.command(), patient("child._STOP_PATIENCE"))
    program = listener.wait_until_ready()
    # The kernel ignores SIGTSTP in a group that no shell watches; a program may stop all the same.
    os.kill(launcher.pid, signal.SIGTSTP)
    os.kill(program, signal.SIGSTOP)
    eventually(lambda: state(launcher.pid) == "T", "the launcher to stop")
    os.kill(launcher.pid, signal.SIGCONT)
    eventually(lambda: state(program) == "S", "the program to run on")
    listener.end()
    assert launcher.wait(PATIENCE) == 42


def test_a_parent_that_ignores_sigchld_gets_the_status_all_the_same() -> None:
    result = numamirror_run("sh", "-c", "exit 7", before=["sh", "-c", 'trap "" CHLD; "$@"', "sh"])
    assert result.returncode == 7


@contextlib.contextmanager
def on_a_terminal(command: list[str]) -> Iterator[tuple[int, int]]:
    """The command as leader of a session with a terminal: (its pid, the terminal's other end)."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], command, environment())
    try:
        yield pid, terminal
    finally:
        with contextlib.suppress(OSError):
            os.close(terminal)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def run_listener(
    listener: Listener, *signals: signal.Signals, numamirror: Sequence[str] = NUMAMIRROR
) -> list[str]:
    return [*numamirror, "run", "--report", "none", *listener.command(*signals)]


@pytest.mark.parametrize(("key", "name"), [(b"\x03", "SIGINT"), (b"\x1c", "SIGQUIT")])
def test_a_key_on_the_terminal_reaches_the_program_once(
    key: bytes, name: str, listener: Listener
) -> None:
    with on_a_terminal(run_listener(listener, *ALL)) as (pid, terminal):
        listener.wait_until_ready()
        os.write(terminal, key)
        assert listener.eventually_heard(name) == [name]
        os.write(terminal, key)
        assert listener.heard(2) == [name] * 2
        listener.end()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42


def test_a_resized_terminal_reaches_the_program_once(listener: Listener) -> None:
    with on_a_terminal(run_listener(listener, *ALL)) as (_, terminal):
        listener.wait_until_ready()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 31, 97, 0, 0))
        assert listener.eventually_heard("SIGWINCH") == ["SIGWINCH"]


def test_a_closed_terminal_reaches_the_program_once(listener: Listener) -> None:
    with on_a_terminal(run_listener(listener, *ALL)) as (_, terminal):
        listener.wait_until_ready()
        os.close(terminal)
        assert [n for n in listener.eventually_heard("SIGHUP") if n == "SIGHUP"] == ["SIGHUP"]


def test_a_shells_job_stops_with_ctrl_z_and_goes_on_with_fg(listener: Listener) -> None:
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("bash is not installed")
    with on_a_terminal([shell, "--norc", "--noprofile", "-i"]) as (_, terminal):
        numamirror = patient("child._STOP_PATIENCE")
        command = shlex.join(run_listener(listener, signal.SIGCONT, numamirror=numamirror))
        os.write(terminal, f"{command}; echo status=$?\n".encode())
        program = listener.wait_until_ready()
        launcher = parent(program)
        os.write(terminal, b"\x1a")
        eventually(lambda: state(program) == state(launcher) == "T", "both to stop")
        os.write(terminal, b"fg\n")
        eventually(lambda: state(program) == state(launcher) == "S", "both to run on")
        assert listener.heard(1) == ["SIGCONT"]
        listener.end()
        eventually(lambda: state(program) == "", "the program to end")


# A minute or more of patience, and then it shows what there is.
LEAVES_AN_ORPHAN = """
trap 'heard=1; echo heard' TERM
(sleep 0.1 & exit 0)
kill -TERM 1
for turn in $(seq 600); do
    test -n "$heard" && ! grep -qs '(sleep)' /proc/[0-9]*/stat && break
    sleep 0.1
done
cat /proc/[0-9]*/stat 2>/dev/null || true
"""


def test_as_process_one_of_a_container_signals_arrive_and_orphans_are_reaped(
    listener: Listener,
) -> None:
    unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("a pid namespace needs root and unshare")
    result = numamirror_run("sh", "-c", LEAVES_AN_ORPHAN, before=unshare)
    assert result.returncode == 0
    assert "heard" in result.stdout
    assert "(sh) " in result.stdout
    assert ") Z " not in result.stdout
