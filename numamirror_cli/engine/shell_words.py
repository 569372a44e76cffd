"""Which programs a shell script names: read off its words, nothing is run or expanded by a shell.

Start scripts spell the engine's place in a few ways: a path, a name on PATH, or relative to the
script's own directory. Those are followed; what a script computes otherwise is not.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from numamirror_cli.engine.program import find_program
from numamirror_cli.errors import NumaMirrorError

_LARGEST_SCRIPT = 1 << 18
_SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "ash"}
_ASSIGNMENT = re.compile(r"\s*(?:export\s+|local\s+|readonly\s+)?([A-Za-z_]\w*)=(.*)")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
# How scripts ask for their own directory: what holds $0 or BASH_SOURCE, in $( ), in ` ` or as a
# suffix cut off.
_OWN_FILE = r"\"?\$(?:0|\{0\}|\{?BASH_SOURCE(?:\[0\])?\}?)\"?"
_OWN_DIRECTORY = (
    re.compile(r"\$\{0%/\*\}|\$\{BASH_SOURCE(?:\[0\])?%/\*\}"),
    re.compile(rf"(?:\$\(|`)[^()`]*(?:\$\([^()]*)?{_OWN_FILE}[^()`]*\)?[^()`]*(?:\)|`)"),
)


def is_shell(program: Path) -> bool:
    """Whether a program is a shell, by its name."""
    return program.name in _SHELLS


def named_programs(script: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Executable files that the script names, in the order of its lines; not the shell's own
    words such as `cd`. A script that cannot be read names none."""
    try:
        if script.stat().st_size > _LARGEST_SCRIPT:
            return ()
        lines = script.read_text(errors="replace").replace("\\\n", " ").splitlines()
    except OSError:
        return ()
    found: dict[Path, None] = {}
    values: dict[str, str] = {}
    for line in lines:
        line = _with_own_directory(line, script)
        if assignment := _ASSIGNMENT.fullmatch(line):
            values[assignment[1]] = _expanded(_unquoted(assignment[2]), values)
        for word in _words(line):
            if program := _program(_expanded(word, values), script, environ):
                found[program] = None
    return tuple(found)


def _with_own_directory(line: str, script: Path) -> str:
    directory = str(script.resolve().parent)
    for pattern in _OWN_DIRECTORY:
        line = pattern.sub(lambda _: directory, line)
    return line


def _words(line: str) -> Iterator[str]:
    try:
        yield from shlex.split(line, comments=True)
    except ValueError:  # a quotation that goes on in the next line
        yield from line.split()


def _unquoted(value: str) -> str:
    return "".join(list(_words(value))[:1])


def _expanded(word: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: values.get(match[1] or match[2], match[0]), word)


def _program(word: str, script: Path, environ: Mapping[str, str]) -> Path | None:
    """The file that a word stands for: a path, or a plain name that PATH knows."""
    if not word or "$" in word or word.startswith("-") or len(word) > 4096:
        return None
    relative = "/" in word and not word.startswith("/")
    for candidate in (word, str(script.resolve().parent / word)) if relative else (word,):
        try:
            program = find_program(candidate, environ)
        except (NumaMirrorError, ValueError):
            continue
        if program.resolve() != script.resolve():
            return program
    return None
