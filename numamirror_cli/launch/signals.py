"""The launcher's signals: held back, read one by one, and told apart by whom they reached.

The child must get each signal once. It shares our process group, so that a signal to the group
(^C on the terminal, `kill %1`, a closing session, systemd's KillMode=control-group) reaches it
without us, while `kill PID` reaches us alone and must be passed on. Nothing in a signal tells the
two apart. A witness does: a process in our group that sleeps with all these signals blocked. What
the kernel holds pending for it was sent to all of us.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

# What a person, a shell or an init system sends to a program to make it do something.
PASSED_ON = frozenset(
    {
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGTSTP,
        signal.SIGCONT,
        signal.SIGWINCH,
        signal.SIGUSR1,
        signal.SIGUSR2,
    }
)
_HELD = PASSED_ON | {signal.SIGCHLD}

# siginfo_t.si_code of a signal that the kernel itself made, as the terminal's are: sigaction(2).
_SI_KERNEL = 0x80

# Signals to a group reach its members within microseconds of each other, systemd's within a
# millisecond: more where its process loses the CPU in between.
_WITNESS_PATIENCE = 0.05

_SFD_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


class HeldSignals:
    """From here on signals wait until they are read. `mask` is the mask from before, the child's.

    fileno() is readable when a signal waits; it is None where signalfd(2) is refused, and the
    reader then has to look from time to time.
    """

    def __init__(self) -> None:
        # With SIGCHLD ignored, as some parents leave it, there would be no exit status to wait for.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
        self._descriptor = _signal_descriptor()

    def fileno(self) -> int | None:
        return self._descriptor

    def read(self) -> Iterator[signal.struct_siginfo]:
        """All signals that wait."""
        while True:
            received = signal.sigtimedwait(_HELD, 0)
            if received is None:
                return
            yield received

    def release(self) -> None:
        """Let signals act on us again, as they do on any program; those that we found ignored, as
        nohup(1) leaves them, stay so. Those that wait are dropped."""
        for number in PASSED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        for _ in self.read():
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)


def _signal_descriptor() -> int | None:
    bits = sum(1 << (number - 1) for number in _HELD)
    mask = (ctypes.c_uint64 * 16)(bits)
    descriptor = ctypes.CDLL(None).signalfd(-1, mask, _SFD_FLAGS)
    return descriptor if descriptor >= 0 else None


class Witness:
    """A process that is sent what our process group is sent. See above."""

    def __init__(self, pid: int, requests: int) -> None:
        self.pid = pid
        self._requests = requests

    def saw(self, received: signal.struct_siginfo) -> bool:
        """Whether that signal went to the whole group. The signal is forgotten with the answer."""
        wanted = 1 << (received.si_signo - 1)
        until = time.monotonic() + _WITNESS_PATIENCE
        while (pending := self._pending()) is not None:
            if pending & wanted:
                self._forget()
                return True
            if time.monotonic() > until:
                return False
            time.sleep(0.001)
        # Without a witness, the signals of the terminal are known for what they are.
        return received.si_code == _SI_KERNEL

    def dismiss(self) -> None:
        """End the witness."""
        with contextlib.suppress(OSError):
            os.close(self._requests)
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)

    def was_reaped(self, pid: int) -> None:
        """Somebody waited for that process. If it was the witness, its number is no longer ours."""
        if pid == self.pid:
            self.pid = 0

    def _pending(self) -> int | None:
        """Its pending signals as bits; None when it is no more."""
        if not self.pid:
            return None
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return None
        lines = dict(line.partition(":")[::2] for line in status.splitlines())
        if lines.get("State", "Z").strip().startswith(("Z", "X")):
            return None
        return int(lines.get("ShdPnd", "0"), 16)

    def _forget(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._requests, b".")


def call_witness() -> Witness:
    """Start the witness. Call it after HeldSignals and before anything that starts a thread.

    A witness that cannot be started is replaced by none: signals of the terminal are then told by
    their code, and a signal that another process sends to the whole group reaches the child twice.
    """
    requests, ours = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(requests)
        return Witness(0, ours)
    if pid == 0:
        _bear_witness(requests)
    os.close(requests)
    return Witness(pid, ours)


def _bear_witness(requests: int) -> None:
    """The witness: holds nothing open, forgets on request, ends with the launcher."""
    try:
        os.dup2(requests, 0)
        os.closerange(1, 1 << 16)
        while os.read(0, 1):
            while signal.sigtimedwait(PASSED_ON, 0):
                pass
    finally:
        os._exit(0)
