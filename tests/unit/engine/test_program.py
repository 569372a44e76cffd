"""Which file is started, and the exit codes when there is none: as env(1) and timeout(1)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from numamirror_cli.engine.program import find_program
from numamirror_cli.errors import NumaMirrorError
from tests.unit.memory.as_nobody import as_nobody

Script = Callable[..., Path]


def refusal(name: str, path: str = "") -> NumaMirrorError:
    with pytest.raises(NumaMirrorError) as caught:
        find_program(name, {"PATH": path})
    return caught.value


def test_a_name_is_searched_along_path_in_order(tmp_path: Path) -> None:
    for directory in ("first", "second"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "engine").touch(0o755)
    path = f"{tmp_path}/none:{tmp_path}/second:{tmp_path}/first"
    assert find_program("engine", {"PATH": path}) == tmp_path / "second" / "engine"


def test_a_file_that_cannot_be_executed_does_not_hide_a_later_one(tmp_path: Path) -> None:
    for directory, mode in (("first", 0o644), ("second", 0o755)):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "engine").touch(mode)
    path = f"{tmp_path}/first:{tmp_path}/second"
    assert find_program("engine", {"PATH": path}) == tmp_path / "second" / "engine"


def test_an_empty_entry_of_path_is_the_current_directory(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = script("engine", "")
    monkeypatch.chdir(engine.parent)
    assert find_program("engine", {"PATH": "/nowhere:"}).resolve() == engine.resolve()


def test_without_path_the_system_directories_are_searched() -> None:
    assert find_program("sh", {}) == Path("/bin/sh")


def test_an_unknown_program_is_127_and_named() -> None:
    error = refusal("no-such-engine", "/usr/bin")
    assert error.exit_code == 127
    assert "no-such-engine" in error.message


@pytest.mark.parametrize("command", ["no-such-engine -m x.gguf | tee log", "./no/engine -m x.gguf"])
def test_a_whole_command_in_quotes_is_told_from_a_program(command: str) -> None:
    error = refusal(command, "/usr/bin")
    assert (error.exit_code, error.message) == (127, f"{Path(command)}: program not found")
    assert error.hint is not None and "leave out the quotes" in error.hint


def test_the_remedy_can_be_pasted_whatever_the_files_name_is(script: Script) -> None:
    error = refusal(str(script("my engine", "", mode=0o644)))
    assert error.hint is not None and error.hint.endswith("/my engine'")


def test_an_unknown_path_is_127_and_named(tmp_path: Path) -> None:
    error = refusal(f"{tmp_path}/no/engine")
    assert (error.exit_code, f"{tmp_path}/no/engine" in error.message) == (127, True)


def test_a_path_through_a_file_is_127(script: Script) -> None:
    assert refusal(f"{script('engine', '')}/engine").exit_code == 127


def test_a_file_that_is_not_executable_is_126(script: Script) -> None:
    engine = script("engine", "", mode=0o644)
    assert refusal(str(engine)).exit_code == 126
    assert refusal("engine", str(engine.parent)).exit_code == 126


def test_a_directory_is_126_by_path_and_127_by_name(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    assert refusal(f"{tmp_path}/engine").exit_code == 126
    assert refusal("engine", str(tmp_path)).exit_code == 127


def test_an_empty_name_is_127() -> None:
    assert refusal("").exit_code == 127


def test_a_directory_of_path_that_cannot_be_searched_is_passed_over(tmp_path: Path) -> None:
    """As when sudo -u or a service keeps root's PATH; a name too long fails for root as well."""
    closed = tmp_path / "closed"
    closed.mkdir(0o700)
    (closed / "sh").touch(0o755)
    path = f"{closed}:/{'x' * 5000}:/bin"
    assert find_program("sh", {"PATH": path}) in (Path("/bin/sh"), closed / "sh")
    assert as_nobody(lambda: find_program("sh", {"PATH": path})) == "/bin/sh"


def test_a_name_too_long_for_any_file_is_127() -> None:
    assert refusal("x" * 5000, "/usr/bin").exit_code == 127
