"""The source distribution: complete, with nothing that is not ours, and built by two compilers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging_rig import REPOSITORY, need

from numamirror_cli import __version__


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("build", reason="pip install the extra `release`")
    directory = tmp_path_factory.mktemp("source")
    build = [sys.executable, "-m", "build", "--sdist", "--outdir", str(directory), str(REPOSITORY)]
    subprocess.run(build, check=True, capture_output=True)
    return directory / f"numamirror-{__version__}.tar.gz"


def test_it_has_what_a_build_and_its_tests_need(source: Path) -> None:
    wanted = {
        "pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile",
        "native/CMakeLists.txt", "native/src/symbols.def", "man/numamirror.1",
        "docs/recipes/answer.py", "tools/build_wheels.py", "tests/unit/test_man.py",
    }  # fmt: skip
    assert wanted - names_in(source) == set()


def test_it_has_nothing_that_git_does_not_know(source: Path) -> None:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        known = subprocess.run(listed, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this tree is no git repository")
    assert names_in(source) - set(known.stdout.splitlines()) == {"PKG-INFO"}


def names_in(source: Path) -> set[str]:
    with tarfile.open(source) as archive:
        return {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}


@pytest.mark.parametrize(("compiler", "package"), [("gcc", "gcc"), ("clang", "clang")])
def test_it_builds_with(compiler: str, package: str, source: Path, tmp_path: Path) -> None:
    compile_with = need(compiler, package)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    command = [*pip, "--no-deps", "--wheel-dir", str(tmp_path), str(source)]
    environment = {**os.environ, "CC": compile_with}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        shim = archive.extract("numamirror_cli/lib/libnumamirror.so", tmp_path)
    loaded = subprocess.run(
        [shutil.which("true") or "true"],
        env={**os.environ, "LD_PRELOAD": shim, "LD_BIND_NOW": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert (loaded.returncode, loaded.stderr) == (0, "")
