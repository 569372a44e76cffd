"""Where the engine tests keep what they fetch and generate."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """$XDG_CACHE_HOME/numamirror-tests, or ~/.cache/numamirror-tests; made when missing."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(base) / "numamirror-tests"
    directory.mkdir(parents=True, exist_ok=True)
    return directory
