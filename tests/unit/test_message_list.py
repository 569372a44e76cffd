"""What `make test-messages` reads: databases of processes of which a test may have killed one."""

from __future__ import annotations

import importlib.util
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "messages.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    specification = importlib.util.spec_from_file_location("list_of_messages", TOOL)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Of a process that ran lines 1 and 2, not 3, of a file of the package."""
    module = tmp_path / "numamirror_cli" / "said.py"
    module.parent.mkdir()
    module.write_text("import sys\nif len(sys.argv) > 1:\n    print(sys.argv)\n")
    file = tmp_path / "data"
    here = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    measured = ("-m", "coverage", "run", "--rcfile=/dev/null", f"--data-file={file}")
    subprocess.run([sys.executable, *measured, module], check=True, cwd=tmp_path, env=here)
    return file


def cut_off(database: Path, length: int) -> None:
    database.write_bytes(database.read_bytes()[:length])


def without_schema(database: Path) -> None:
    """As a process leaves it that is killed between its first two statements."""
    with sqlite3.connect(database) as connection:
        connection.execute("delete from coverage_schema")


def test_lines_are_those_that_ran(tool: ModuleType, database: Path) -> None:
    assert tool.executed_lines([str(database)]) == {"said.py": {1, 2}}


@pytest.mark.parametrize("length", [0, 1, 100, 4096, 8192, 20480])
def test_a_database_cut_off_takes_nothing_from_the_others(
    length: int, tool: ModuleType, database: Path
) -> None:
    whole = database.with_name("whole")
    whole.write_bytes(database.read_bytes())
    cut_off(database, length)
    assert tool.executed_lines([str(database), str(whole)]) == {"said.py": {1, 2}}


def test_a_database_of_a_killed_process_is_named_and_left_out(
    tool: ModuleType, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without_schema(database)
    assert tool.executed_lines([str(database)]) == {}
    assert f"ended while it wrote: Data file '{database}'" in capsys.readouterr().err
