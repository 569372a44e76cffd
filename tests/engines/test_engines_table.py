"""The tables of supported engines in the README and in docs/engines.md."""

from __future__ import annotations

import rig
import support


def test_every_engine_of_the_tests_has_a_row_in_the_tables() -> None:
    assert {engine.name for engine in rig.ALL} <= set(support.ENGINES)


def test_a_failed_test_is_seen_in_both_tables() -> None:
    outcomes = {"output": {"a": True, "b": False}, "mirrored": {"a": True}, "poison": {}}
    found = support.Found("1.0", outcomes)
    tables = [support.table(*page, {"xllamacpp": found}) for page in support.PAGES.values()]
    assert "**fails a test**" in tables[0] and "**1** of 2" in tables[1]


def test_an_engine_that_was_not_run_has_no_row() -> None:
    (head, cells), *_ = support.PAGES.values()
    assert support.table(head, cells, {}).count("\n") == 2
