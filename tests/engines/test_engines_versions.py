"""From the oldest ggml to the newest that is tested: what the shim's table says of each version,
and that each is read without a table of its own."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping

import fetch
import pytest
from rig import ENGINES, WHISPER, run_mirrored
from test_engines_mirror import TWO_REPLICAS

from numamirror_cli.engine.engines import read_images
from numamirror_cli.engine.examination import look_into
from numamirror_cli.engine.symbols import MAINLINE, Symbol, known_symbols

Version = tuple[int, ...]

# RPC's library is left out of builds that do not ask for it.
NOT_IN_EVERY_BUILD = "ggml_backend_rpc_start_server"


@functools.cache
def names_by_version() -> Mapping[Version, frozenset[str]]:
    """What llama.cpp's libraries export, by ggml version, of those to be had here."""
    found: dict[Version, frozenset[str]] = {}
    for engine in (*ENGINES, WHISPER):
        try:
            command = engine.checked(engine.models[0])
        except fetch.Unavailable:
            continue
        _, (seen,) = look_into(command, os.environ)
        version = re.search(r"ggml (\d+)\.(\d+)\.(\d+)", seen.engine.version)
        if version and seen.engine.family == MAINLINE:
            images = read_images(seen.engine.libraries)
            names = frozenset(name for image in images for name in image.defines)
            number = tuple(map(int, version.groups()))
            if names:  # an engine inside its program exports nothing
                found[number] = found.get(number, frozenset()) | names
    if len(found) < 4:
        pytest.skip(f"only {len(found)} versions of ggml can be had here")
    return found


def since(symbol: Symbol) -> Version:
    return tuple(map(int, symbol.since.split(".")))


def rows() -> list[Symbol]:
    return [s for s in known_symbols() if s.belongs_to(MAINLINE) and s.name != NOT_IN_EVERY_BUILD]


def test_no_version_has_a_function_before_the_table_says_so() -> None:
    for version, names in names_by_version().items():
        assert [s.name for s in rows() if s.name in names and since(s) > version] == []


def test_every_function_is_in_the_version_that_the_table_names() -> None:
    versions = names_by_version()
    for symbol in rows():
        if since(symbol) in versions:
            assert symbol.name in versions[since(symbol)]


def test_what_is_required_is_in_every_version() -> None:
    for names in names_by_version().values():
        lacking = [s.name for s in rows() if s.is_needed_by(MAINLINE) and s.name not in names]
        assert lacking == []


def test_at_least_four_versions_are_read_by_their_own_api_and_mirrored() -> None:
    mirrored = set()
    for engine in ENGINES:
        try:
            engine.command("moe-Q8_0")
        except fetch.Unavailable:
            continue
        mirror = run_mirrored(engine, "moe-Q8_0", TWO_REPLICAS, poisoned=True).mirror
        _, (seen,) = look_into(engine.checked("moe-Q8_0"), os.environ)
        assert mirror["coverage"] == 1.0
        mirrored.add(seen.engine.version)
    assert len(mirrored) >= 4 or len(names_by_version()) < 4
