"""Whose process is it? Asked of /proc, which changes while it is read, or is not there at all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from numamirror_cli.launch import family
from numamirror_cli.launch.family import descendants, has_variable, is_descendant
from tests.unit.launch.conftest import numamirror_run
from tests.unit.launch.listener import eventually


def test_a_child_is_ours_and_its_parent_is_not_its_own() -> None:
    with subprocess.Popen(["sleep", "30"], env={"MARK": "1"}) as child:
        try:
            assert descendants(os.getpid())[0] == os.getpid()
            assert child.pid in descendants(os.getpid())
            assert is_descendant(child.pid, os.getpid())
            assert not is_descendant(os.getpid(), child.pid)
        finally:
            child.kill()


def test_parents_that_seem_to_be_each_others_children_end_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(family, "_all_pids", lambda: [10, 11, 12])
    monkeypatch.setattr(family, "_parent", {10: 12, 11: 10, 12: 11}.__getitem__)
    assert set(descendants(10)) == {10, 11, 12}
    assert not is_descendant(10, 99)


def test_a_process_is_known_by_a_variable_that_it_was_started_with() -> None:
    with subprocess.Popen(["sleep", "30"], env={"MARK": "1"}) as child:
        try:
            # The kernel lets Popen go on a little before the environment is in place.
            eventually(lambda: has_variable(child.pid, "MARK", "1"), "its environment to be there")
            assert not has_variable(child.pid, "MARK", "2")
            assert not has_variable(child.pid, "ARK", "1")
        finally:
            child.kill()
    assert not has_variable(child.pid, "MARK", "1")


def test_where_there_is_no_proc_the_child_stands_for_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(family, "Path", lambda _: tmp_path / "none")
    assert descendants(7) == [7]


def test_with_an_empty_proc_the_program_runs_and_its_status_is_ours() -> None:
    hide = ["unshare", "--mount", "sh", "-c", 'umount -l /proc && exec "$@"', "sh"]
    if subprocess.run([*hide, "true"], check=False, capture_output=True).returncode:
        pytest.skip("a mount namespace needs root and unshare")
    words = ("--rehearse", "2", "sh", "-c", "sleep 0.5; echo ran; exit 3")
    done = numamirror_run(*words, before=hide)
    assert (done.returncode, done.stdout) == (3, "ran\n"), done.stderr
