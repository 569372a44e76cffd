"""Messages that few people ever see, each brought about as it would be in life.

`make test-messages` says which messages of the program no test brings about.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import numamirror_cli

REPOSITORY = Path(__file__).resolve().parents[2]


def numamirror(
    *words: str, package: Path = REPOSITORY, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "numamirror_cli", *words],
        cwd=package,
        env={**os.environ, "PYTHONPATH": str(package), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture
def without_native_part(tmp_path: Path) -> Path:
    """Our package as it is when only its Python files were copied somewhere."""
    source = Path(numamirror_cli.__file__).parent
    leave_out = shutil.ignore_patterns("lib", "__pycache__")
    shutil.copytree(source, tmp_path / "numamirror_cli", ignore=leave_out)
    return tmp_path


def test_options_that_contradict_each_other_are_named() -> None:
    done = numamirror("run", "--observe", "--strategy", "bind", "--", "true")
    assert done.returncode == 2
    assert "--observe and --strategy bind exclude one another" in done.stderr


def test_a_report_whose_directory_went_away_meanwhile_is_said_and_the_status_kept(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "reports"
    directory.mkdir()
    report = directory / "run.json"
    removed = ["sh", "-c", f"rm -r '{directory}'; exit 7"]
    done = numamirror("run", "--report", "none", "--json", str(report), "--", *removed)
    assert done.returncode == 7
    assert f"--json {report}: the result could not be written: No such file" in done.stderr


def test_without_the_shim_the_program_runs_and_the_remedy_is_said(
    without_native_part: Path,
) -> None:
    command = ("run", "--rehearse", "2", "--report", "none", "--", "echo", "as ever")
    done = numamirror(*command, package=without_native_part, NUMAMIRROR_SHIM="")
    assert (done.returncode, done.stdout) == (0, "as ever\n")
    assert "libnumamirror.so was not found" in done.stderr
    assert "the package was installed without its native part" in done.stderr
    assert "reinstall numamirror" in done.stderr


def test_a_bench_without_its_program_says_what_is_missing(without_native_part: Path) -> None:
    done = numamirror("bench", "--seconds", "0.05", package=without_native_part)
    assert done.returncode == 1
    assert "numamirror-bandwidth was not found" in done.stderr
    assert "the package lacks its native part: reinstall numamirror" in done.stderr


def test_a_bench_that_cannot_be_kept_is_shown_all_the_same() -> None:
    done = numamirror("bench", "--seconds", "0.05", XDG_CACHE_HOME="/dev/null")
    assert done.returncode == 1
    assert "cannot write /dev/null/numamirror/bench-" in done.stderr
    assert "GB/s" in done.stdout
    assert "Kept in" not in done.stdout


def test_a_file_that_cannot_be_mapped_is_no_model() -> None:
    file = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not file.exists():
        pytest.skip(f"there is no {file} here")
    done = numamirror("cache", str(file))
    assert done.returncode == 1
    assert f"numamirror: {file}: cannot be mapped: " in done.stderr
