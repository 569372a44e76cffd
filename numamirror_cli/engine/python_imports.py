"""Which extension modules and bundled libraries a Python command will or may load.

Read off the sources, by their import statements; nothing is imported. That finds what a program
imports by name, which is how engines are used, and misses what it makes up at run time.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.engine.directories import is_directory, is_file, matching
from numamirror_cli.engine.python_path import find_module, module_path

# Sources read and libraries listed for one command; beyond that, it is said and left.
_MOST_SOURCES = 150
_MOST_LIBRARIES = 400
_LARGEST_SOURCE = 1 << 20
# Options of python(1) that take a value.
_VALUES = {"-W", "-X", "--check-hash-based-pycs"}


@dataclass(frozen=True)
class Imports:
    """libraries: shared objects of all packages that are imported. unfollowed: why there may be
    more, "" when nothing hints at it."""

    libraries: tuple[Path, ...] = ()
    unfollowed: str = ""


@dataclass(frozen=True)
class _Source:
    """package: the dotted package that relative imports start from."""

    text: str
    package: str = ""


@dataclass(frozen=True)
class PythonCommand:
    """What an interpreter is told to run. kind: "-c", "-m", "script", or "" for nothing that has a
    name. what: the code, the module or the script's path; arguments: what the program gets."""

    kind: str = ""
    what: str = ""
    arguments: tuple[str, ...] = ()


def read_python_command(arguments: Sequence[str]) -> PythonCommand:
    """The arguments of python(1), its own options left out."""
    words = list(arguments)
    while words and words[0].startswith("-") and words[0] not in ("-m", "-c", "-"):
        words = words[2:] if words[0] in _VALUES else words[1:]
    if words[:1] in (["-c"], ["-m"]) and len(words) > 1:
        return PythonCommand(words[0], words[1], tuple(words[2:]))
    if not words or words[0].startswith("-"):
        return PythonCommand()
    return PythonCommand("script", words[0], tuple(words[1:]))


def imported_libraries(
    interpreter: Path, arguments: Sequence[str], environ: Mapping[str, str]
) -> Imports:
    """Follow `interpreter arguments...`: a script, -m MODULE or -c CODE."""
    command = read_python_command(arguments)
    if not command.kind:
        return Imports((), "no script is named")
    if command.kind == "script":
        return _follow_script(Path(command.what), interpreter, environ)
    path = module_path(interpreter, Path.cwd(), environ)
    if command.kind == "-c":
        return _follow([_Source(command.what)], path)
    if _is_standard(command.what):
        return Imports()
    if not find_module(command.what, path):
        return Imports((), f"module {command.what} was not found")
    return _follow([_Source(f"import {command.what}, {command.what}.__main__")], path)


def _follow_script(script: Path, interpreter: Path, environ: Mapping[str, str]) -> Imports:
    if is_directory(script):  # python DIRECTORY runs its __main__.py
        script = script / "__main__.py"
    text = _read(script)
    if text is None:
        return Imports((), f"{script} cannot be read as Python")
    return _follow([_Source(text)], module_path(interpreter, script.resolve().parent, environ))


def _follow(queue: list[_Source], path: Sequence[Path]) -> Imports:
    """Breadth first, so that what is nearest to the command is read before the limit.

    A package that brings compiled code is where a chain of imports arrives: its sources are not
    read.
    """
    compiled: dict[Path, tuple[Path, ...]] = {}
    seen: set[Path] = set()
    count = 0
    while queue:
        source = queue.pop(0)
        count += 1
        if count > _MOST_SOURCES:
            return Imports(_all_of(compiled), f"only {_MOST_SOURCES} of its modules were read")
        for name in _imported_names(source):
            files = find_module(name, path)
            if files and files[0] not in compiled:
                compiled[files[0]] = tuple(_libraries_of(files[0]))
            if not files or compiled[files[0]]:
                continue
            for file in files:
                if file not in seen and (text := _read(file)) is not None:
                    queue.append(_Source(text, _package_of(file, path)))
                seen.add(file)
    return Imports(_all_of(compiled))


def _all_of(compiled: Mapping[Path, tuple[Path, ...]]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(file for files in compiled.values() for file in files))


def _imported_names(source: _Source) -> Iterator[str]:
    """Dotted names of modules, also of those that may be attributes; not the standard library."""
    try:
        tree = ast.parse(source.text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        for name in _names_in(node, source.package):
            if not _is_standard(name):
                yield name


def _is_standard(module: str) -> bool:
    """Of the standard library, which brings no engine."""
    return module.partition(".")[0] in sys.stdlib_module_names


def _names_in(node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = _absolute(node.module or "", node.level, package)
        if base:
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")
    elif isinstance(node, ast.Call) and node.args:
        function = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        function = node.func.id if isinstance(node.func, ast.Name) else function
        argument = node.args[0]
        is_import = function in ("import_module", "__import__")
        if is_import and isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            yield argument.value.lstrip(".")


def _absolute(module: str, level: int, package: str) -> str:
    if not level:
        return module
    parts = package.split(".") if package else []
    kept = parts[: len(parts) - level + 1]
    return ".".join([*kept, *([module] if module else [])])


def _package_of(file: Path, path: Sequence[Path]) -> str:
    for directory in path:
        if file.is_relative_to(directory):
            return ".".join(file.relative_to(directory).parts[:-1])
    return ""


def _libraries_of(module: Path) -> Iterator[Path]:
    """The shared objects that lie in a package, whoever in it loads them; or the module itself."""
    if module.suffix == ".so":
        yield module
        return
    is_package = is_directory(module)
    directory = module if is_package else module.parent
    if is_package or module.name == "__init__.py":
        found = matching(directory, "**/*.so*")
        yield from (file for file in found[:_MOST_LIBRARIES] if _is_library(file))


def _is_library(file: Path) -> bool:
    return is_file(file) and (file.suffix == ".so" or ".so." in file.name)


def _read(file: Path) -> str | None:
    try:
        if file.suffix == ".so" or not file.is_file() or file.stat().st_size > _LARGEST_SOURCE:
            return None
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
