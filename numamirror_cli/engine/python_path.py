"""Where a Python interpreter looks for modules, read off its files: it is not started for that.

After the site module's documentation and PEP 405 (pyvenv.cfg).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from numamirror_cli.engine.directories import is_directory, is_file, matching

_NAME = re.compile(r"(?:python|pypy)(\d+(?:\.\d+)?)?t?")


def is_python(program: Path) -> bool:
    """Whether a program is a Python interpreter, by its name."""
    return _NAME.fullmatch(program.name) is not None


def module_path(
    interpreter: Path, first: Path | None, environ: Mapping[str, str]
) -> tuple[Path, ...]:
    """sys.path without the standard library. first: the script's directory, if it is searched."""
    directories = [] if first is None else [first]
    directories += [Path(part) for part in environ.get("PYTHONPATH", "").split(":") if part]
    for site in _site_directories(interpreter, environ):
        directories += [site, *_named_in_pth_files(site)]
    return tuple(directory for directory in dict.fromkeys(directories) if is_directory(directory))


def _site_directories(interpreter: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    prefix = interpreter.absolute().parent.parent
    settings = _virtual_environment(prefix)
    yield from _sites_below(prefix)
    if settings is not None and settings.get("include-system-site-packages") != "true":
        return
    if "PYTHONNOUSERSITE" not in environ and (home := environ.get("HOME")):
        yield from _sites_below(Path(home) / ".local")
    base = prefix
    if settings is not None:
        base = Path(settings.get("home", "/usr/bin")).parent
        yield from _sites_below(base)
    if base == Path("/usr"):  # Debian's own arrangement
        yield from matching(Path("/usr/local/lib"), "python3*/dist-packages")
        yield Path("/usr/lib/python3/dist-packages")


def _sites_below(prefix: Path) -> list[Path]:
    return matching(prefix, "lib*/python3*/site-packages")


def _virtual_environment(prefix: Path) -> dict[str, str] | None:
    try:
        lines = (prefix / "pyvenv.cfg").read_text(errors="replace").splitlines()
    except OSError:
        return None
    pairs = (line.partition("=") for line in lines)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _named_in_pth_files(site: Path) -> Iterator[Path]:
    """Directories that *.pth files add; lines of code in them are not followed."""
    for file in matching(site, "*.pth"):
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:
            continue
        for line in map(str.strip, lines):
            if line and not line.startswith(("#", "import ", "import\t")):
                yield site / line


def find_module(name: str, path: Sequence[Path]) -> tuple[Path, ...]:
    """The files of a dotted module and of the packages around it, outermost first.

    Empty when its outermost part is nowhere; what lies deeper may be an attribute, no module.
    """
    parts = name.split(".")
    for directory in path:
        found: list[Path] = []
        for part in parts:
            file = _in_directory(part, directory)
            if file is None:
                break
            found.append(file)
            directory = directory / part
        if found:
            return tuple(found)
    return ()


def _in_directory(name: str, directory: Path) -> Path | None:
    """The source, extension or (for a namespace package) directory of a module."""
    package = directory / name
    for candidate in (package / "__init__.py", directory / f"{name}.py"):
        if is_file(candidate):
            return candidate
    extensions = [*matching(directory, f"{name}.*.so"), directory / f"{name}.so"]
    for candidate in extensions:
        if is_file(candidate):
            return candidate
    return package if is_directory(package) else None
