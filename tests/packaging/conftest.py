"""The wheels of dist/, for the packaging tests."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging_rig import DIST


@pytest.fixture(scope="session")
def wheel() -> Callable[[str], Path]:
    """wheel("x86_64"): the newest wheel of dist/ for that processor."""

    def newest(processor: str) -> Path:
        wheels = sorted(DIST.glob(f"*_{processor}.whl"), key=lambda path: path.stat().st_mtime)
        if not wheels:
            pytest.skip(f"no wheel for {processor} in dist/: make wheels")
        return wheels[-1]

    return newest


@pytest.fixture(scope="session")
def unpacked(
    wheel: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """unpacked("aarch64"): a directory with that wheel's files."""
    done: dict[str, Path] = {}

    def directory(processor: str) -> Path:
        if processor not in done:
            done[processor] = tmp_path_factory.mktemp(processor)
            with zipfile.ZipFile(wheel(processor)) as archive:
                archive.extractall(done[processor])
        return done[processor]

    return directory
