"""Who may read the status page, and how much anybody can make the launcher hold."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from numamirror_cli.memory.status_page import find_status_page
from tests.unit.memory.as_nobody import as_nobody

from . import runs


@pytest.fixture(params=[(), ("memfd_create=EPERM",)], ids=["memfd", "without memfd_create"])
def engine_with_page(
    request: pytest.FixtureRequest, libllama: Path, model: Path, tmp_path: Path
) -> Path:
    """The status page of an engine that stays, below /proc."""
    command = [*runs.refusing(*request.param), *runs.NUMAMIRROR, "--report", "none"]
    command += [*runs.REHEARSED, "--"]
    command += runs.program("lives.py", "stay", "--engine-dir", libllama, "--model", model)
    launcher = subprocess.Popen(
        command,
        cwd=runs.REPOSITORY,
        env=runs.environment({}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    request.addfinalizer(launcher.wait)
    assert launcher.stdin is not None and launcher.stdout is not None
    request.addfinalizer(launcher.stdin.close)
    pid = int(launcher.stdout.readline())
    assert launcher.stdout.readline()  # it has generated
    page = find_status_page(pid)
    assert page is not None
    return page


def test_the_status_page_is_its_owners_alone(engine_with_page: Path) -> None:
    facts = engine_with_page.stat()
    assert stat.S_IMODE(facts.st_mode) == 0o600
    assert facts.st_uid == os.geteuid()
    assert facts.st_nlink == 0  # nothing to be left behind
    assert "Permission denied" in as_nobody(engine_with_page.read_bytes)


def test_a_flood_of_events_is_bounded(tmp_path: Path) -> None:
    """Descriptors and memory of the launcher, while a child sends whatever it can."""
    run = runs.run_mirrored(tmp_path, runs.program("flood.py"), *runs.REHEARSED)
    assert run.line["descriptors"] < 30
    assert run.line["resident_kib"] < 150 * 1024
    assert len(run.record["events"]) == 2000  # heard, and no more of them kept
