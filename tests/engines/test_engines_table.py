"""The tables of supported engines in the README and in docs/engines.md."""

from __future__ import annotations

from pathlib import Path

import build_llama
import pytest
import rig
import support

PAGES = list(support.PAGES)


def rows_of(page: Path) -> list[list[str]]:
    """The cells of the committed table, head first, without the line below it."""
    lines = page.read_text().split(support.BEGIN)[1].split(support.END)[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return rows[:1] + rows[2:]


def test_every_engine_of_the_tests_has_a_row_in_the_tables() -> None:
    assert {engine.name for engine in rig.ALL} <= set(support.ENGINES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_committed_table_has_a_row_for_each_engine_that_is_tested(page: Path) -> None:
    head, *rows = rows_of(page)
    assert head == support.PAGES[page][0]
    assert [row[0] for row in rows] == [row.title for row in support.ENGINES.values()]


def test_engines_that_are_built_from_source_are_marked_in_the_tables() -> None:
    built = (
        *(build_llama.llama_cpp_python, build_llama.static_server, build_llama.stripped_server),
        build_llama.static_worker,
    )
    names = {engine.name for engine in rig.ALL if engine.directory in built}
    assert {name for name, row in support.ENGINES.items() if row.built} == names
    for page in PAGES:
        assert "\\* Built from source" in page.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_committed_table_names_versions_and_no_failure(page: Path) -> None:
    head, *rows = rows_of(page)
    assert all(row[head.index("version")] for row in rows)
    assert "**" not in str(rows)


def test_a_failed_test_is_seen_in_both_tables() -> None:
    outcomes = {"output": {"a": True, "b": False}, "mirrored": {"a": True}, "poison": {}}
    found = support.Found("1.0", outcomes)
    tables = [support.table(*page, {"xllamacpp": found}) for page in support.PAGES.values()]
    assert "**fails a test**" in tables[0] and "**1** of 2" in tables[1]


def test_full_is_said_only_of_what_was_run_with_an_unreadable_primary() -> None:
    outcomes = {"output": {"a": True}, "mirrored": {"b": True}, "poison": {"c": True}}
    assert support.summary(support.Found("1.0", outcomes)) == "full"
    assert support.summary(support.Found("1.0", outcomes | {"poison": {}})) == "mirrored"
    assert support.summary(support.Found("1.0", outcomes | {"mirrored": {}})) == "policy only"


def test_an_engine_that_was_not_run_has_no_row() -> None:
    (head, cells), *_ = support.PAGES.values()
    assert support.table(head, cells, {}).count("\n") == 2
