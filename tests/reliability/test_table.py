"""docs/reliability.md: every row is a test that there is."""

from __future__ import annotations

import re
import subprocess
import sys

from . import runs

TABLE = runs.REPOSITORY / "docs" / "reliability.md"


def named_tests() -> list[str]:
    lines = TABLE.read_text().splitlines()
    return [found[1] for line in lines if (found := re.search(r"\| `(tests/[^`]+)` \|$", line))]


def test_there_are_forty_rows_and_each_names_a_test_of_its_own() -> None:
    rows = [line for line in TABLE.read_text().splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(named_tests()) == len(set(named_tests())) >= 40


def test_every_test_that_is_named_is_collected() -> None:
    files = sorted({name.partition("::")[0] for name in named_tests()})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *files]
    done = subprocess.run(command, cwd=runs.REPOSITORY, capture_output=True, text=True)
    collected = {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}
    assert set(named_tests()) <= collected, set(named_tests()) - collected
