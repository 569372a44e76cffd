"""A program that writes down every signal it gets, one line each, and how to run it."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# A handler in C runs for each delivery; one in Python runs once for several that come together.
SOURCE = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int log_file;
static void note(int number) { dprintf(log_file, "%d\n", number); }

int main(int argc, char **argv) {
    log_file = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
    struct sigaction action = {.sa_handler = note};
    sigfillset(&action.sa_mask);
    for (int i = 2; i < argc; ++i) sigaction(atoi(argv[i]), &action, NULL);
    dprintf(log_file, "ready %d\n", getpid());
    for (int left = 20 * 600; left > 0 && access(argv[1], F_OK) == 0; --left) usleep(50000);
    return 42;
}
"""

# For what takes no time, on a machine that does something else.
PATIENCE = 120.0
# Long enough for a signal that comes twice to have come twice.
SETTLE_SECONDS = 0.25


class Listener:
    """The compiled program and its log, without which it ends, with status 42."""

    def __init__(self, program: Path, log: Path) -> None:
        self.program = program
        self.log = log

    def command(self, *signals: signal.Signals) -> list[str]:
        return [str(self.program), str(self.log), *(str(number.value) for number in signals)]

    def wait_until_ready(self) -> int:
        """Its pid."""
        eventually(lambda: "ready" in self._text(), "the program to start")
        return int(self._text().split("\n")[0].split()[1])

    def end(self) -> None:
        """Let it end by itself."""
        self.log.unlink(missing_ok=True)

    def heard(self, count: int = 0) -> list[str]:
        """The signals that it got, by name, once there are `count` and a moment has passed."""
        eventually(lambda: len(self._text().splitlines()) > count, f"{count} signals")
        time.sleep(SETTLE_SECONDS)
        return [signal.Signals(int(line)).name for line in self._text().splitlines()[1:]]

    def eventually_heard(self, name: str) -> list[str]:
        """As heard(), once that signal has come."""
        number = str(signal.Signals[name].value)
        eventually(lambda: number in self._text().splitlines()[1:], name)
        return self.heard()

    def _text(self) -> str:
        return self.log.read_text() if self.log.exists() else ""


@pytest.fixture(scope="session")
def listener_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("cc"):
        pytest.skip("cc is not installed")
    path = tmp_path_factory.mktemp("listener") / "listener"
    subprocess.run(["cc", "-x", "c", "-", "-o", path], input=SOURCE.encode(), check=True)
    return path


@pytest.fixture
def listener(listener_program: Path, tmp_path: Path) -> Iterator[Listener]:
    started = Listener(listener_program, tmp_path / "signals")
    yield started
    started.end()


def eventually(test: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait until the test holds; fail when it does not in that time."""
    until = time.monotonic() + seconds
    while not test():
        if time.monotonic() > until:
            pytest.fail(f"waited {seconds} s for {what}")
        time.sleep(0.01)


def state(pid: int) -> str:
    """The process's state letter (R, S, T, Z, ...), "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def children(pid: int) -> list[int]:
    """The pids of its children."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return [each for each in pids if parent(each) == pid]


def parent(pid: int) -> int:
    """Its parent's pid, 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def kthreadd_is_seen() -> bool:
    """Whether process 2 is the kernel's; containers show none of its threads."""
    name = Path("/proc/2/comm")
    return name.exists() and name.read_text() == "kthreadd\n"
