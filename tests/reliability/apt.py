"""Libraries that tests preload: the system's, else fetched through apt without installing them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "engines"))

from fetch import put_in_place
from paths import cache_dir


class Missing(Exception):
    """The library cannot be had here; the text says why."""


def library(package: str, name: str) -> Path:
    """The file `name` (libjemalloc.so.2) of a Debian or Ubuntu package. Raises Missing."""
    unpacked = cache_dir() / f"apt-{package}"
    found = _find(name, Path("/usr/lib"), unpacked)
    if found is None and not unpacked.exists():
        _unpack(package, unpacked)
        found = _find(name, unpacked)
    if found is None:
        raise Missing(f"{name} is not in package {package}")
    return found


def _find(name: str, *directories: Path) -> Path | None:
    return next((path for place in directories for path in place.glob(f"**/{name}")), None)


def _unpack(package: str, directory: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise Missing(f"package {package} is not installed, and there is no apt to fetch it with")
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        problem = _download(package, Path(scratch))
        if problem and os.geteuid() == 0:  # stale package lists
            subprocess.run(["apt-get", "-q", "update"], capture_output=True)
            problem = _download(package, Path(scratch))
        if problem:
            raise Missing(f"apt-get download {package}: {problem}")
        [archive] = Path(scratch).glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", archive, f"{scratch}/root"], check=True)
        put_in_place(Path(scratch, "root"), directory)


def _download(package: str, directory: Path) -> str:
    """Returns what went wrong, in one line; "" when nothing did."""
    command = ["apt-get", "-q", "download", package]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    problem = done.stderr.strip() or f"status {done.returncode}"
    return "" if done.returncode == 0 else problem.splitlines()[-1]
