"""Real engines and models for the faults; what cannot be had here is a skip that says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from . import runs


@pytest.fixture(scope="session")
def model(generated: Callable[[str], Path]) -> Path:
    """A mixture of experts."""
    return generated("tiny-moe-Q8_0")


@pytest.fixture(scope="session")
def second_model(generated: Callable[[str], Path]) -> Path:
    """Another one, whose text is another."""
    return generated("tiny-dense-Q8_0")


@pytest.fixture(scope="session")
def engine(model: Path) -> tuple[str, ...]:
    """The command of a real engine on that model: llama.cpp in a Python process."""
    pytest.importorskip("xllamacpp", reason="pip install the extra `demo`")
    return runs.driver("drive_xllamacpp.py", model=model)


@pytest.fixture(scope="session")
def libllama_engine(libllama: Path, model: Path) -> tuple[str, ...]:
    """The command of a real engine that makes no socket and sets no affinity."""
    return runs.driver("drive_llama_ctypes.py", "--engine-dir", str(libllama), model=model)
