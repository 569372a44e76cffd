"""The child: started as if we weren't there, watched until it ends.

It shares our standard streams, terminal, process group and session. Signals reach it once; when
it stops, we stop; its status is ours. If we are killed, it runs on.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from numamirror_cli.errors import NumaMirrorError, unreadable
from numamirror_cli.launch.signals import PASSED_ON, HeldSignals, Witness

# Python ignores these for itself; the child must find them as programs expect them.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)

_SHELL = Path("/bin/sh")

# What fork(2) says where a limit on processes or on memory is reached; execve(2) says none of it.
_NO_FURTHER_PROCESS = (errno.EAGAIN, errno.ENOMEM)

# How often to look for signals where the kernel gives no descriptor to wait on.
_LOOK_SECONDS = 0.05

# A child that stops this long after SIGTSTP stopped because of it, and we follow. Without SIGTSTP
# we don't: whoever stops the child alone will not think of waking us.
_STOP_PATIENCE = 2.0


@dataclass(frozen=True)
class Ending:
    """How the child ended: by exit, or by a signal."""

    exit_code: int | None
    signal: int | None

    @property
    def status(self) -> int:
        """As a shell reports it: the exit code, or 128 + the signal's number."""
        return 128 + self.signal if self.signal is not None else self.exit_code or 0


def start(
    program: Path,
    command: Sequence[str],
    environ: Mapping[str, str],
    mask: Iterable[int],
) -> int:
    """Start the program and return its pid.

    mask: the signal mask to give it. Raises NumaMirrorError with exit code 127 when the file or
    its interpreter is missing, 126 when it can't be run, and OSError when there can be no further
    process: the program itself may run all the same.
    """
    try:
        return _spawn(program, command, environ, mask)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise _cannot_start(program, error) from None
    # A script without "#!", which execvp(3) gives to sh.
    try:
        return _spawn(_SHELL, _as_shell_script(program, command), environ, mask)
    except OSError as error:
        raise _cannot_start(_SHELL, error) from None


def take_our_place(program: Path, command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Become the program, which then runs as if we had never been there. Raises NumaMirrorError
    (126, 127) when it can't be run."""
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    try:
        _exec(program, command, environ)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise _cannot_start(program, error) from None
    try:
        _exec(_SHELL, _as_shell_script(program, command), environ)
    except OSError as error:
        raise _cannot_start(_SHELL, error) from None


def _exec(program: Path, command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    os.execve(program, list(command), environ)


def _as_shell_script(program: Path, command: Sequence[str]) -> list[str]:
    """The command by which sh runs that file."""
    return [str(_SHELL), str(program), *command[1:]]


def _spawn(
    program: Path,
    command: Sequence[str],
    environ: Mapping[str, str],
    mask: Iterable[int],
) -> int:
    return os.posix_spawn(
        program, list(command), environ, setsigdef=_IGNORED_BY_PYTHON, setsigmask=mask
    )


def _cannot_start(program: Path, error: OSError) -> OSError | NumaMirrorError:
    if error.errno in _NO_FURTHER_PROCESS:
        return error
    if error.errno != errno.ENOENT:
        return unreadable(program, error, exit_code=126)
    return NumaMirrorError(
        f"{program}: its interpreter or loader does not exist",
        hint="see its first line, or `readelf -l` for the loader",
        exit_code=127,
    )


class Supervisor:
    """Waits for the child, passing on signals, until it ends."""

    def __init__(self, pid: int, signals: HeldSignals, witness: Witness) -> None:
        self._pid = pid
        self._signals = signals
        self._witness = witness
        self._ending: Ending | None = None
        self._stop_until = 0.0
        self._child_stopped = False

    def wait(
        self,
        listeners: Mapping[int, Callable[[], bool]],
        tick: Callable[[], float | None],
    ) -> Ending:
        """Wait for the child's end.

        listeners: descriptor -> what to call when it is readable, which returns whether it wants
        to be called again. tick is called after each wakening and returns the seconds until it
        wants to be called again, None for no wish.
        """
        # poll(2), which needs no descriptor: with the child running, nothing may fail any more.
        with selectors.PollSelector() as selector:
            for descriptor, listener in listeners.items():
                selector.register(descriptor, selectors.EVENT_READ, listener)
            descriptor_of_signals = self._signals.fileno()
            if descriptor_of_signals is not None:
                selector.register(descriptor_of_signals, selectors.EVENT_READ)
            while self._ending is None:
                patience = tick()
                if descriptor_of_signals is None:
                    patience = min(patience or _LOOK_SECONDS, _LOOK_SECONDS)
                for key, _ in selector.select(patience):
                    if key.data is not None and not key.data():
                        selector.unregister(key.fileobj)
                self._handle_signals()
        return self._ending

    def _handle_signals(self) -> None:
        for received in self._signals.read():
            number = signal.Signals(received.si_signo)
            if number in PASSED_ON:
                self._pass_on(received)
                if number == signal.SIGTSTP:
                    self._stop_until = time.monotonic() + _STOP_PATIENCE
                elif number == signal.SIGCONT:
                    self._stop_until = 0.0
        self._look_at_child()
        if self._child_stopped and time.monotonic() < self._stop_until and self._ending is None:
            self._stop_until = 0.0
            os.kill(os.getpid(), signal.SIGSTOP)

    def _pass_on(self, received: signal.struct_siginfo) -> None:
        if self._witness.saw(received) and self._in_our_group():
            return
        try:
            os.kill(self._pid, received.si_signo)
        except (ProcessLookupError, PermissionError):
            # Ended meanwhile, or a setuid program that is not ours to signal.
            return

    def _in_our_group(self) -> bool:
        try:
            return os.getpgid(self._pid) == os.getpgrp()
        except ProcessLookupError:
            return True

    def _look_at_child(self) -> None:
        """Learn what happened to the child; as process 1 of a container, reap all others too."""
        while self._ending is None:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                # Taken from us by nobody we know: its status is lost.
                self._ending = Ending(125, None)
                return
            if pid == 0:
                return
            if pid == self._pid:
                self._note(status)
            self._witness.was_reaped(pid)

    def _note(self, status: int) -> None:
        if os.WIFSTOPPED(status):
            self._child_stopped = True
        elif os.WIFCONTINUED(status):
            self._child_stopped = False
        elif os.WIFSIGNALED(status):
            self._ending = Ending(None, os.WTERMSIG(status))
        else:
            self._ending = Ending(os.WEXITSTATUS(status), None)
