"""README and docs/: no link leads nowhere, and what is generated was not edited."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from numamirror_cli.cli import COMMANDS

REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text()
PAGES = sorted(
    path.relative_to(REPOSITORY).as_posix()
    for path in (*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"))
)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file(page: str) -> None:
    text = (REPOSITORY / page).read_text()
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    inside = [link for link in links if "://" not in link]
    assert [link for link in inside if not ((REPOSITORY / page).parent / link).exists()] == []


def test_the_readme_has_a_line_for_every_command() -> None:
    table = README.partition("## Commands")[2].partition("\n## ")[0]
    listed = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert listed == set(COMMANDS) - {"completion"}
    assert "`numamirror completion bash`" in table


def test_the_session_in_the_readme_is_the_one_that_was_taken() -> None:
    shown = re.search(r"<!-- session: .*? -->\n```text\n(.*?)```\n<!-- end", README, re.DOTALL)
    assert shown is not None
    assert shown[1] == (REPOSITORY / "docs" / "session.txt").read_text()


def test_the_picture_of_the_session_fetches_nothing() -> None:
    picture = (REPOSITORY / "docs" / "session.svg").read_text()
    assert "url(http" not in picture
    assert "@font-face" not in picture
    assert "numamirror&#160;topology" in picture


NAMED_TEST = re.compile(r"`((?:native|tests)/[\w/]+\.(?:py|c))::(?:\w+::)?(\w+)`")
STRATEGIES = (REPOSITORY / "docs" / "strategies.md").read_text()


def test_the_strategies_name_the_tests_that_show_them() -> None:
    assert len(NAMED_TEST.findall(STRATEGIES)) > 20


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    assert [
        (file, name)
        for file, name in NAMED_TEST.findall((REPOSITORY / page).read_text())
        if not re.search(
            rf"^\s*(?:def|static void) {name}\(", (REPOSITORY / file).read_text(), re.M
        )
    ] == []


def test_every_cell_of_the_strategies_has_its_proof() -> None:
    table = STRATEGIES.partition("| strategy |")[2].partition("\n\n")[0]
    cells = [cell for row in table.splitlines()[2:] for cell in row.strip("|").split("|")[1:]]
    proofs = set(re.findall(r"^(\d+)\. [`]", STRATEGIES, re.MULTILINE))
    assert len(cells) >= 6 * 5
    assert [cell for cell in cells if not set(re.findall(r"\[(\d+)\]", cell)) & proofs] == []
    assert set(re.findall(r"\[(\d+)\]", STRATEGIES)) == proofs
