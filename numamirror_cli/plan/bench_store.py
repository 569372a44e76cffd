"""Where bench results are kept: one file per machine in the user's cache directory."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numamirror_cli.errors import NumaMirrorError, unreadable
from numamirror_cli.output import write_whole
from numamirror_cli.plan.bench_result import BenchResult, Identity, from_json, to_json


def bench_file(identity: Identity, environ: Mapping[str, str] = os.environ) -> Path:
    """The file of that machine's result: below XDG_CACHE_HOME, ~/.cache where that is unset."""
    return _cache_home(environ) / "numamirror" / f"bench-{identity.key}.json"


def _cache_home(environ: Mapping[str, str]) -> Path:
    """A relative XDG_CACHE_HOME counts as none, as its specification has it. Containers run as
    users without HOME whom /etc/passwd does not know: nothing is found or kept for those."""
    cache = Path(environ.get("XDG_CACHE_HOME", ""))
    if cache.is_absolute():
        return cache
    try:
        return Path(environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir, ".cache")
    except KeyError:
        return Path("/.cache")


def store(result: BenchResult, path: Path) -> None:
    """Write a result, whole or not at all. Raises NumaMirrorError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(to_json(result), indent=2) + "\n")
    except OSError as error:
        raise NumaMirrorError(
            f"cannot write {path}: {error.strerror}",
            hint="let XDG_CACHE_HOME name a directory that you may write to",
        ) from None


def load(path: Path) -> BenchResult:
    """Read a result. Raises NumaMirrorError, naming the file, when it is none."""
    try:
        return from_json(_parsed(path.read_bytes()))
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError as error:
        raise NumaMirrorError(
            f"{path}: {error}", hint="make a new one with: numamirror bench"
        ) from None


def _parsed(content: bytes) -> Any:
    """The document, None where it is no JSON."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def load_for(identity: Identity, environ: Mapping[str, str] = os.environ) -> BenchResult | None:
    """This machine's result; None when it was never measured, or the file is broken."""
    try:
        return load(bench_file(identity, environ))
    except NumaMirrorError:
        return None
