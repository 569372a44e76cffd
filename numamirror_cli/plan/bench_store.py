"""Where bench results are kept: one file per machine in the user's cache directory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.plan.bench_result import BenchResult, Identity, from_json, to_json


def bench_file(identity: Identity, environ: Mapping[str, str] = os.environ) -> Path:
    """The file of that machine's result: below XDG_CACHE_HOME, ~/.cache where that is unset."""
    cache = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME", "~"), ".cache"))
    return Path(cache).expanduser() / "numamirror" / f"bench-{identity.key}.json"


def store(result: BenchResult, path: Path) -> None:
    """Write a result, whole or not at all. Raises NumaMirrorError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(to_json(result), indent=2) + "\n")
        partial.replace(path)
    except OSError as error:
        raise NumaMirrorError(f"cannot write {path}: {error.strerror}") from None


def load(path: Path) -> BenchResult:
    """Read a result. Raises NumaMirrorError, naming the file, when it is none."""
    try:
        return from_json(json.loads(path.read_text()))
    except OSError as error:
        raise NumaMirrorError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise NumaMirrorError(
            f"{path}: {error}", hint="make a new one with: numamirror bench"
        ) from None


def load_for(identity: Identity, environ: Mapping[str, str] = os.environ) -> BenchResult | None:
    """This machine's result; None when it was never measured, or the file is broken."""
    try:
        return load(bench_file(identity, environ))
    except NumaMirrorError:
        return None
