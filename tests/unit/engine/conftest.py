"""Real programs to judge: compiled here, of every kind that the loader treats differently."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Compile = Callable[..., Path]


@pytest.fixture
def compile_c(tmp_path: Path) -> Compile:
    """compile_c(name, source, *flags, compiler="cc") -> the built file."""

    def build(name: str, source: str, *flags: str, compiler: str = "cc") -> Path:
        if not shutil.which(compiler):
            pytest.skip(f"{compiler} is not installed")
        output = tmp_path / name
        made = subprocess.run(
            [compiler, "-x", "c", "-", "-o", str(output), *flags],
            input=source,
            text=True,
            capture_output=True,
            check=False,
        )
        if made.returncode:
            pytest.skip(f"{compiler} {' '.join(flags)} does not work here: {made.stderr[-200:]}")
        return output

    return build


@pytest.fixture
def shim(compile_c: Compile) -> Path:
    """A library that can be preloaded and does nothing."""
    return compile_c("libstandin.so", "int numamirror_standin;", "-shared", "-fPIC")
