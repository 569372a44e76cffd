"""What the packaging tests share: the wheels of dist/, and programs of the system."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DIST = REPOSITORY / "dist"

Need = Callable[[str, str], str]


@pytest.fixture(scope="session")
def need() -> Need:
    """need(program, package): the program's path; installed by apt where that is ours to do, else
    the test is skipped with the command that would help."""

    def path_of(program: str, package: str) -> str:
        found = shutil.which(program)
        if found is None and os.getuid() == 0 and shutil.which("apt-get"):
            apt_install(package)
            found = shutil.which(program)
        if found is None:
            pytest.skip(f"{program} is not installed: apt-get install {package}")
        return found

    return path_of


def apt_install(*packages: str) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *packages]
    return subprocess.run(install, env=environment, capture_output=True).returncode == 0


@pytest.fixture(scope="session")
def wheel() -> Callable[[str], Path]:
    """wheel("x86_64"): the newest wheel of dist/ for that processor."""

    def newest(processor: str) -> Path:
        wheels = sorted(DIST.glob(f"*_{processor}.whl"), key=lambda path: path.stat().st_mtime)
        if not wheels:
            pytest.skip(f"no wheel for {processor} in dist/: make wheels")
        return wheels[-1]

    return newest


@pytest.fixture(scope="session")
def unpacked(
    wheel: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """unpacked("aarch64"): a directory with that wheel's files."""
    done: dict[str, Path] = {}

    def directory(processor: str) -> Path:
        if processor not in done:
            done[processor] = tmp_path_factory.mktemp(processor)
            with zipfile.ZipFile(wheel(processor)) as archive:
                archive.extractall(done[processor])
        return done[processor]

    return directory
