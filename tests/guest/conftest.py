"""Boots guests for the tests of a module; what this machine lacks for that is a skip, named."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from . import hostile_boot as hostile
from .catalogue import TWO_NODES
from .missing import Missing
from .vm import Guest, Result, Step, boot
from .weight_pages import matrices_in

HERE = Path(__file__).parent

Boot = Callable[[Guest, Sequence[Step]], dict[str, Result]]
Model = Callable[[str], Path]


@pytest.fixture(scope="session")
def boot_guest(tmp_path_factory: pytest.TempPathFactory) -> Boot:
    """boot_guest(guest, steps): one boot, the results of its steps by name."""

    def boot_or_skip(guest: Guest, steps: Sequence[Step]) -> dict[str, Result]:
        try:
            return boot(guest, steps, tmp_path_factory.mktemp("guest"), limit=3000)
        except Missing as reason:
            pytest.skip(str(reason))

    return boot_or_skip


@pytest.fixture(scope="session")
def model(generated: Model) -> Model:
    """model("tiny-moe-Q8_0"): a generated model for an engine that runs emulated."""
    pytest.importorskip("xllamacpp", reason="pip install the extra `engines`")
    return generated


@pytest.fixture(scope="session")
def matrices_of(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """matrices_of("tiny-moe-Q8_0"): a file that says where the matrices of that model lie in it."""

    def written(name: str) -> Path:
        path = tmp_path_factory.mktemp("matrices") / f"{name}.json"
        path.write_text(json.dumps(matrices_in(model(name))))
        return path

    return written


@pytest.fixture(scope="session")
def probing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """probing.c on the shim's own source, built."""
    program = tmp_path_factory.mktemp("probing") / "probing"
    native = HERE.parents[1] / "native" / "src"
    needed = ("heal.c", "moving.c", "page_size.c", "sys.c")
    sources = [HERE / "probing.c", *(native / name for name in needed)]
    options = ["-std=gnu11", "-pthread", f"-I{native}", f"-I{native.parent / 'include'}"]
    subprocess.run(["cc", *options, "-o", program, *sources], check=True)
    return program


@pytest.fixture(scope="session")
def hostile_boot(
    boot_guest: Boot, model: Model, libllama: Path, probing: Path
) -> dict[str, Result]:
    """One boot for all that hostile_boot.py lists."""
    mapped, repacked = model("tiny-moe-Q8_0"), model("tiny-moe-Q4_0")
    return boot_guest(TWO_NODES, hostile.orders(mapped, repacked, libllama, probing))
