"""The measuring programs in C, and the shim that they are measured with."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
BUILT = REPOSITORY / "build" / "bench"

# One copy of the weights on the only node, read in place of the primary: what a thread does on a
# machine with several nodes, with all system calls, but nothing is nearer than anything.
ONE_REPLICA = {
    "NUMAMIRROR_ABI": "1",
    "NUMAMIRROR_COPIES": "0=0-8191",
    "NUMAMIRROR_HOME_NODE": "0",
    "NUMAMIRROR_COPY_HOME": "1",
}


@functools.cache
def build() -> Path:
    """Builds bench/native and the shim, as for a release; returns the directory."""
    configure = ["cmake", "-S", str(REPOSITORY / "bench/native"), "-B", str(BUILT)]
    subprocess.run([*configure, "-DCMAKE_BUILD_TYPE=Release"], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", str(BUILT), "-j2"], check=True, capture_output=True)
    return BUILT


def shim() -> Path:
    return build() / "libnumamirror.so"


def run(program: str, *arguments: object, env: Mapping[str, str] | None = None) -> str:
    """Stdout of one of the measuring programs. Raises CalledProcessError."""
    command = [str(build() / program), *map(str, arguments)]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env=os.environ | (env or {})
    )
    return done.stdout


def valgrind() -> str | None:
    return shutil.which("valgrind")
