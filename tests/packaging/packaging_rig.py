"""What the packaging tests share: this repository, and programs of the system."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DIST = REPOSITORY / "dist"
# A mirror that does not answer is asked again, and another apt is waited for.
APT_PATIENCE = ("-oAcquire::Retries=5", "-oDPkg::Lock::Timeout=300")


def need(program: str, package: str) -> str:
    """The program's path. It is installed by apt where that is ours to do; else the test is
    skipped with the command that would help."""
    found = shutil.which(program)
    if found is None and apt_install(package):
        found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed: apt-get install {package}")
    return found


def need_file(path: str, package: str) -> Path:
    """The same for a file."""
    file = Path(path)
    if not file.exists() and not (apt_install(package) and file.exists()):
        pytest.skip(f"there is no {path}: apt-get install {package}")
    return file


def apt_install(*packages: str) -> bool:
    if os.getuid() != 0 or not shutil.which("apt-get"):
        return False
    install = ("install", "-y", "--no-install-recommends", *packages)
    # A fresh machine may have no package lists, or old ones.
    return _apt_get(*install) or (_apt_get("update") and _apt_get(*install))


def _apt_get(*words: str) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-qq", *APT_PATIENCE, *words]
    return subprocess.run(command, env=environment, capture_output=True).returncode == 0
