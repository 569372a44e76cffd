"""Engines and models for the tests of several rooms; what cannot be had is a skip that says why."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "engines"))


@pytest.fixture(scope="session")
def generated() -> Callable[[str], Path]:
    """generated("tiny-moe-Q8_0"): a generated model, small enough for a run in a second."""
    moe = pytest.importorskip("moe", reason="pip install the extra `engines`")

    def named(name: str) -> Path:
        path: Path = moe.model(*name.split("-"))
        return path

    return named


@pytest.fixture(scope="session")
def libllama() -> Path:
    """The directory of prebuilt llama.cpp libraries that are dlopen'ed."""
    import fetch

    try:
        directory: Path = fetch.node_llama_cpp()
    except fetch.Unavailable as reason:
        pytest.skip(str(reason))
    return directory
