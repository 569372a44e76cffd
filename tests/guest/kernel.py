"""Gets a kernel and QEMU for the guests, without installing a kernel into this system."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .missing import Missing

# A meta package depends on the newest kernel, so no version stands here. Cloud flavours lack 9p.
META_PACKAGES = ("linux-image-amd64", "linux-image-generic")
QEMU = "qemu-system-x86_64"
QEMU_PACKAGE = "qemu-system-x86"


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel. image: the bzImage; modules: its lib/modules/RELEASE directory."""

    release: str
    image: Path
    modules: Path


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "numamirror-tests" / "kernel"


def find_kernel() -> Kernel:
    """The newest kernel in the cache; when there is none, it is fetched through apt and unpacked.

    Raises Missing, naming what stands in the way.
    """
    if platform.machine() != "x86_64":
        raise Missing(f"a guest kernel for {platform.machine()} (the guests are x86_64)")
    cache = cache_directory()
    kernels = unpacked_kernels(cache)
    if not kernels:
        fetch_kernel(cache)
        kernels = unpacked_kernels(cache)
    if not kernels:
        raise Missing(f"a kernel image with modules in the packages unpacked to {cache}")
    return kernels[-1]


def unpacked_kernels(cache: Path) -> list[Kernel]:
    """Kernels under cache/*/, oldest first by the time they were unpacked."""
    kernels = []
    for root in sorted(cache.glob("root-*"), key=lambda path: path.stat().st_mtime):
        for image in root.glob("boot/vmlinuz-*"):
            release = image.name.removeprefix("vmlinuz-")
            for modules in (root / "lib/modules" / release, root / "usr/lib/modules" / release):
                if (modules / "kernel").is_dir():
                    kernels.append(Kernel(release, image, modules))
    return kernels


def fetch_kernel(cache: Path) -> None:
    """Downloads the packages of the newest kernel and unpacks them into one directory of `cache`.

    That directory gets its final name when it is complete, so that a broken one is never used.
    """
    for tool in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise Missing(f"{tool} (a guest kernel is fetched on Debian and Ubuntu only)")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="unpacking-", dir=cache) as scratch:
        work = Path(scratch)
        release = download_kernel(work)
        for package in work.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(package), str(work / "root")], check=True)
        (work / "root").rename(cache / f"root-{release}")


def download_kernel(directory: Path) -> str:
    """Puts the kernel's packages into `directory` and returns its release ("6.1.0-57-amd64").

    Stale package lists name files that are gone from the archive: root refreshes them once.
    """
    release = newest_release()
    problem = download(release, directory) if release else "no package lists"
    if problem and os.geteuid() == 0:
        subprocess.run(["apt-get", "-q", "update"], capture_output=True)
        release = newest_release()
        problem = download(release, directory) if release else problem
    if release is None or problem:
        raise Missing(f"package {META_PACKAGES[0]} ({problem})", "apt-get update")
    return release


def newest_release() -> str | None:
    for meta in META_PACKAGES:
        for package in depends_of(meta):
            if re.match(r"linux-image-\d", package):
                return package.removeprefix("linux-image-")
    return None


def download(release: str, directory: Path) -> str:
    """Returns what went wrong in one line, "" when all packages of the kernel are there."""
    image = f"linux-image-{release}"
    # Debian has all in one package; Ubuntu splits the modules off, twice.
    modules = {f"linux-modules-{release}", f"linux-modules-extra-{release}"}
    packages = [image, *sorted(modules & available_packages(release))]
    command = ["apt-get", "-q", "download", *packages]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    problem = done.stderr.strip() or f"status {done.returncode}"
    return "" if done.returncode == 0 else problem.splitlines()[-1]


def depends_of(package: str) -> list[str]:
    command = ["apt-cache", "depends", package]
    listing = subprocess.run(command, capture_output=True, text=True).stdout
    return re.findall(r"Depends: (\S+)", listing)


def available_packages(release: str) -> set[str]:
    command = ["apt-cache", "pkgnames", "linux-modules-"]
    names = subprocess.run(command, capture_output=True, text=True).stdout.split()
    return {name for name in names if name.endswith(release)}


def find_qemu() -> Path:
    """The path of QEMU for x86_64; root on Debian and Ubuntu gets it installed.

    Raises Missing with the command that would install it.
    """
    install = ["apt-get", "install", "-y", "--no-install-recommends", QEMU_PACKAGE]
    if shutil.which(QEMU) is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "-q", "update"], capture_output=True)
        subprocess.run(install, capture_output=True, env=quiet)
    found = shutil.which(QEMU)
    if found is None:
        raise Missing(QEMU, " ".join(["sudo", *install]))
    return Path(found)
