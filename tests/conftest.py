"""Engines and models for the tests of several rooms; what cannot be had is a skip that says why."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "engines"))

# An engine's threads that wait for one another are to sleep (OpenMP): where other programs run too,
# they would take the time that the awaited one needs, and a run of a second lasts twenty.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# A shell without job control has what it starts with & ignore Ctrl-C, and all that is started from
# there inherits that: no test of a signal could pass.
for number, action in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, action)


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
