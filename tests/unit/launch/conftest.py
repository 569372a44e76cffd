"""Real runs: numamirror as its own process, with a real child under it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
NUMAMIRROR = [sys.executable, "-m", "numamirror_cli"]
# Nothing here takes long; a machine that does something else takes its time.
SECONDS = 300

# `numamirror` that ends a program when it has looked at it and `{shot}` held.
ENDED_BY_A_LOOK = """
import os, signal
from numamirror_cli.cli import main
from numamirror_cli.launch.snapshots import Snapshots
look = Snapshots._look
def look_and_end(self, pid, *words):
    look(self, pid, *words)
    shot = self.latest
    if shot is not None and {shot}:
        os.kill(pid, signal.SIGTERM)
Snapshots._look = look_and_end
main()
"""


def environment(**changes: str | None) -> dict[str, str]:
    """This process's environment with our package in reach and without our own variables; None
    takes a variable away."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NUMAMIRROR_")}
    kept["PYTHONPATH"] = str(REPOSITORY)
    kept["COLUMNS"] = "80"
    kept.update({name: value for name, value in changes.items() if value is not None})
    return {name: value for name, value in kept.items() if changes.get(name, "") is not None}


def numamirror_run(
    *arguments: str | Path,
    env: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """`numamirror run ARGUMENTS` to its end; before: a command to put in front."""
    return _to_the_end([*before, *NUMAMIRROR, "run", *map(str, arguments)], env, **options)


def numamirror_run_until(
    shot: str, *arguments: str | Path, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """`numamirror run ARGUMENTS`; the program is ended when a look at it showed what `shot` says,
    in Python: "shot.command == 'sleep'"."""
    launcher = [sys.executable, "-c", ENDED_BY_A_LOOK.format(shot=shot)]
    return _to_the_end([*launcher, "run", *map(str, arguments)], env)


def _to_the_end(
    command: Sequence[str], env: Mapping[str, str] | None, **options: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=environment() if env is None else env,
        text=True,
        timeout=SECONDS,
        check=False,
        **{"capture_output": True, "stdin": subprocess.DEVNULL, **options},
    )


@pytest.fixture
def python_script(script: Callable[..., Path]) -> Callable[[str], Path]:
    """python_script(text) -> an executable file run by this Python, our package in reach."""
    head = f"#!{sys.executable}\nimport os, signal, sys, time\n"
    return lambda text: script("program", head + text)


@pytest.fixture(scope="session")
def standin_shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that can be preloaded and does nothing: the tests' programs speak for it."""
    if not shutil.which("cc"):
        pytest.skip("cc is not installed")
    path = tmp_path_factory.mktemp("shim") / "libstandin.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", path],
        input=b"int numamirror_standin;",
        check=True,
    )
    return path


@pytest.fixture
def shim_env(standin_shim: Path) -> dict[str, str]:
    """The environment of a run that preloads the stand-in."""
    return environment(NUMAMIRROR_SHIM=str(standin_shim))


@dataclass
class Recorded:
    """A run's --json file."""

    path: Path

    def read(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.path.read_text())
        return document


@pytest.fixture
def record(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path / "run.json")


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes started by a test; what still runs at its end is killed."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()
