"""What decides colour and width of everything that is printed."""

from __future__ import annotations

import io

import pytest

from numamirror_cli.report.console import message_console, report_console


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def _printed(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> str:
    monkeypatch.setattr("sys.stdout", stream)
    report_console().print("red", style="red")
    return stream.getvalue()


def test_a_pipe_gets_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _printed(monkeypatch, io.StringIO()) == "red\n"


def test_a_terminal_gets_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[31m" in _printed(monkeypatch, _Terminal())


def test_a_terminal_gets_no_colour_when_no_color_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in _printed(monkeypatch, _Terminal())


@pytest.mark.parametrize("name", ["NO_COLOR", "FORCE_COLOR"])
def test_an_empty_variable_changes_nothing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "")
    assert "\x1b[31m" in _printed(monkeypatch, _Terminal())
    assert _printed(monkeypatch, io.StringIO()) == "red\n"


def test_a_pipe_gets_colour_when_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[31m" in _printed(monkeypatch, io.StringIO())


def test_no_color_wins_over_force_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert _printed(monkeypatch, io.StringIO()) == "red\n"


def test_columns_sets_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "57")
    assert report_console().width == 57
    assert message_console().width == 57


@pytest.mark.parametrize("garbage", ["", "0", "-3", "wide"])
def test_a_senseless_columns_is_ignored(monkeypatch: pytest.MonkeyPatch, garbage: str) -> None:
    monkeypatch.setenv("COLUMNS", garbage)
    assert report_console().width > 0


def test_file_names_in_brackets_are_printed_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    message_console().print("[bold]model[/bold] :smile: 0000:82:01.0")
    assert stream.getvalue() == "[bold]model[/bold] :smile: 0000:82:01.0\n"
