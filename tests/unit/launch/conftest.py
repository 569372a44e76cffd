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
SECONDS = 60


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
    return subprocess.run(
        [*before, *NUMAMIRROR, "run", *map(str, arguments)],
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
