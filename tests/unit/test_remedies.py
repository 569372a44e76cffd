"""Each error comes with what to do about it, in a line of its own that can be typed or followed."""

from __future__ import annotations

import ast
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from numamirror_cli.errors import unreadable, unwritable

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "numamirror_cli"
# In no command line but ours, also where the same test runs twice at a time.
NOBODY = f"no program of that name, {os.getpid()}"


def numamirror(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "numamirror_cli", *words],
        cwd=REPOSITORY,
        env={**os.environ, "FORCE_COLOR": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )


def calls(name: str) -> list[tuple[str, ast.Call]]:
    """Where the package calls a function or class of that name."""
    return [
        (f"{file.relative_to(PACKAGE)}:{node.lineno}", node)
        for file in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and name in (getattr(node.func, "id", ""), getattr(node.func, "attr", ""))
    ]


def test_no_error_of_ours_is_made_without_a_remedy() -> None:
    made = calls("NumaMirrorError")
    assert len(made) > 50
    assert [
        place for place, call in made if "hint" not in {keyword.arg for keyword in call.keywords}
    ] == []
    # click's own has no place for one; a bad value says what a good one is.
    assert calls("UsageError") == []


@pytest.mark.parametrize(
    ("words", "what", "usage"),
    [
        (("--fast",), "--fast", "numamirror [OPTIONS] COMMAND"),
        (("mirror",), "no such command 'mirror'", "numamirror [OPTIONS] COMMAND"),
        (("run", "--pins", "true"), "--pins", "numamirror run [OPTIONS] [--] PROGRAM"),
        (("run", "--min-size"), "'--min-size' requires an argument", "numamirror run [OPTIONS]"),
        (("run", "--per", "core", "true"), "'core' is not one of", "numamirror run [OPTIONS]"),
        (("run", "--budget", "half", "true"), "a share such as 40%", "numamirror run [OPTIONS]"),
        (("run", "--pin"), "missing argument", "numamirror run [OPTIONS] [--] PROGRAM"),
        (("cache",), "missing argument 'MODEL'", "numamirror cache [OPTIONS] MODEL"),
        (("bench", "--seconds", "0"), "'--seconds'", "numamirror bench [OPTIONS]"),
        (("completion",), "bash, zsh, fish", "numamirror completion [OPTIONS] {bash|zsh|fish}"),
        (("topology", "more"), "unexpected extra argument (more)", "numamirror topology [OPTIONS]"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_usage_is_said_in_one_line_and_how_it_is_called_in_another(
    words: tuple[str, ...], what: str, usage: str
) -> None:
    done = numamirror(*words)
    assert done.returncode == 2 and done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first.startswith("numamirror: ") and what in first
    assert second.startswith(f"numamirror: usage: {usage}")
    command = " ".join(usage.split("[")[0].split())
    assert second.endswith(f"; {command} --help says more")


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("topology", "--json", "--draw"), "give one of them at a time"),
        (("run", "--observe", "--strategy", "bind", "true"), "leave one of them out"),
        (("run", "--root", "/", "true"), "add --dry-run"),
        (("plan", "--bandwidth", "local=1", "--bench", "x", "m"), "leave one of them out"),
        (("plan", "m.gguf", "--json"), "put it in front of MODEL.gguf: numamirror plan --json"),
        (("plan", "m.gguf", "-c"), "give -c as the engine takes it"),
        (("plan", "no-such-model.gguf"), "ls -l . shows what is there"),
        (("plan", "m-00001-of-00002.gguf"), "a split model is read in all its parts"),
        (("inspect", "--root", "tests", "--watch", "1"), "leave out --watch"),
        (("inspect", "--svg", "x.svg", "--watch", "1"), "leave out --watch"),
        (("inspect", NOBODY), "ps -ef shows what runs"),
        (("inspect", ""), "give a pid or a name"),
        (("inspect", "4194305"), "ps -ef shows what runs"),
        (("cache", "."), "name the model's own file"),
        (("check", "/no/such/program"), "ls -l /no/such shows what is there"),
        (("check", ""), "name one, as in: llama-server -m model.gguf"),
        (("topology", "--svg", "/no/such/x.svg"), "mkdir -p /no/such makes its directory"),
        (("topology", "--gather", "/no/such/x.tar.xz"), "mkdir -p /no/such makes its directory"),
        (("run", "--dry-run", "--json", "/no/such/x", "true"), "mkdir -p /no/such makes"),
    ],
    ids=lambda value: " ".join(value).replace(NOBODY, "NOBODY") if isinstance(value, tuple) else "",
)
def test_an_error_is_followed_by_its_remedy(words: tuple[str, ...], remedy: str) -> None:
    done = numamirror(*words)
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].startswith(f"numamirror: {remedy}")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EACCES, "namei -l '/models/a b.gguf' shows who may reach it"),
        (errno.ENOENT, "ls -l /models shows what is there"),
        (errno.EIO, "dmesg shows what its disk reported"),
        (errno.EISDIR, "name a file in it"),
        (errno.EMFILE, "see ulimit -n"),
        (errno.ENXIO, "name another file"),
    ],
)
def test_a_file_that_cannot_be_read_comes_with_what_to_do_about_it(
    number: int, remedy: str
) -> None:
    error = unreadable(Path("/models/a b.gguf"), OSError(number, os.strerror(number)))
    assert error.message == f"/models/a b.gguf: {os.strerror(number)}"
    assert error.hint == remedy


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOENT, "mkdir -p /out makes its directory"),
        (errno.ENOSPC, "df -h /out shows what is full; name a file elsewhere"),
        (errno.EROFS, "name a file elsewhere: nothing can be written there"),
        (errno.EPERM, "namei -l /out/x.svg shows who may reach it"),
    ],
)
def test_a_file_that_cannot_be_written_comes_with_what_to_do_about_it(
    number: int, remedy: str
) -> None:
    error = unwritable(Path("/out/x.svg"), OSError(number, os.strerror(number)))
    assert error.message == f"cannot write /out/x.svg: {os.strerror(number)}"
    assert error.hint == remedy
