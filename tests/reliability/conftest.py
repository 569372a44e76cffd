"""Real engines and models for the faults; what cannot be had here is a skip that says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import runs


@pytest.fixture(scope="session")
def model() -> Path:
    """A generated mixture of experts, small enough for a run in a second."""
    moe = pytest.importorskip("moe", reason="pip install the extra `engines`")
    path: Path = moe.model("tiny", "moe", "Q8_0")
    return path


@pytest.fixture(scope="session")
def engine(model: Path) -> tuple[str, ...]:
    """The command of a real engine on that model: llama.cpp in a Python process."""
    pytest.importorskip("xllamacpp", reason="pip install the extra `demo`")
    return runs.driver("drive_xllamacpp.py", model=model)


@pytest.fixture(scope="session")
def libllama() -> Path:
    """The directory of prebuilt llama.cpp libraries that are dlopen'ed."""
    import fetch

    try:
        directory: Path = fetch.node_llama_cpp()
    except fetch.Unavailable as reason:
        pytest.skip(str(reason))
    return directory


@pytest.fixture(scope="session")
def libllama_engine(libllama: Path, model: Path) -> tuple[str, ...]:
    """The command of a real engine that makes no socket and sets no affinity."""
    return runs.driver("drive_llama_ctypes.py", "--engine-dir", str(libllama), model=model)


@pytest.fixture(scope="session")
def second_model() -> Path:
    """Another one, whose text is another."""
    moe = pytest.importorskip("moe", reason="pip install the extra `engines`")
    path: Path = moe.model("tiny", "dense", "Q8_0")
    return path
