"""`make release` on copies of this tree: it says what stands against a release, and uploads
nothing. And the form for bug reports asks for what a report needs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging_rig import REPOSITORY

from numamirror_cli import __version__

VERSION = Path("numamirror_cli/__init__.py")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository of its own with one commit: what is here and not ignored."""
    pytest.importorskip("build", reason="pip install the extra `release`")
    listed = git(REPOSITORY, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if (REPOSITORY / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes((REPOSITORY / name).read_bytes())
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(tree: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=tree, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this tree is no git repository: {error}")
    return done.stdout


def commit(tree: Path) -> None:
    git(tree, "add", "--all")
    who = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    git(tree, *who, "commit", "--quiet", "--message", "A copy")


def release(tree: Path) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(tree / "tools" / "release.py")]
    return subprocess.run(program, cwd=tree, capture_output=True, text=True, timeout=1200)


def test_a_tree_that_agrees_is_ready_and_what_is_left_to_do_is_said(copy: Path) -> None:
    done = release(copy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"numamirror {__version__}\n")
    assert f"dist/numamirror-{__version__}.tar.gz: " in done.stdout
    assert "left to do: make test test-packaging; tag it, upload dist/" in done.stdout
    assert git(copy, "tag", "--list") == ""


def test_a_number_that_the_changes_and_the_pages_do_not_have_is_not_ready(copy: Path) -> None:
    (copy / VERSION).write_text((copy / VERSION).read_text().replace(__version__, "9.8.7"))
    commit(copy)
    done = release(copy)
    assert done.returncode == 1
    assert "CHANGELOG.md: the newest section is not '## 9.8.7 (YEAR-MONTH-DAY)'" in done.stdout
    assert "manual pages: " in done.stdout
    assert "not ready" in done.stderr


def test_what_is_tagged_or_not_committed_is_not_ready(copy: Path) -> None:
    git(copy, "tag", f"v{__version__}")
    with (copy / "README.md").open("a") as readme:
        readme.write("\n")
    done = release(copy)
    assert done.returncode == 1
    assert f"v{__version__} is tagged already" in done.stdout
    assert "not committed: README.md" in done.stdout


def test_the_number_stands_in_one_place() -> None:
    """Of what is written by hand: results, pages and sessions are made, and changes are history."""
    written = ("*.py", "*.toml", "*.cmake", "CMakeLists.txt", "*.[ch]", "Makefile", ".ci")
    named = git(REPOSITORY, "grep", "--files-with-matches", "-F", __version__, "--", *written)
    assert named.split() == [str(VERSION)]


def test_the_form_for_bugs_asks_for_the_machine_and_the_process() -> None:
    yaml = pytest.importorskip("yaml", reason="pip install the extra `release`")
    form = yaml.safe_load((REPOSITORY / ".github/ISSUE_TEMPLATE/bug.yml").read_text())
    fields = {field["id"]: field for field in form["body"] if field["type"] != "markdown"}
    asked = {name: str(field["attributes"]) for name, field in fields.items()}
    assert "numamirror topology --gather" in asked["machine"]
    assert "numamirror inspect --json" in asked["process"]
    assert fields["machine"]["validations"]["required"]
    commands = re.findall(r"`numamirror (\w+)", " ".join(asked.values()))
    assert set(commands) <= {"topology", "inspect", "check"}
