"""Which files the loader will load for a program or library: DT_NEEDED, followed as ld.so(8) does.

The program is not run for that; it may be for another machine, or not to be trusted.
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.engine.directories import is_directory, matching
from numamirror_cli.engine.elf import ElfFacts, read_elf

_CONFIGURATION = Path("/etc/ld.so.conf")
# Includes inside includes: more than anybody has.
_MOST_INCLUDES = 8


@dataclass(frozen=True)
class Linked:
    """files: all that is loaded with a file, itself first, breadth first as the loader goes.
    missing: names that are in no directory."""

    files: tuple[Path, ...]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Loaded:
    """parents: who asked for it, whose DT_RPATH counts too; nearest first."""

    path: Path
    elf: ElfFacts
    parents: tuple[_Loaded, ...] = ()


def linked_files(
    path: Path, environ: Mapping[str, str], loader_options: Sequence[str] = ()
) -> Linked:
    """Follow a program or library. loader_options: those of a bundled loader that starts it.

    Files that cannot be read end their branch.
    """
    elf = _elf_of(path)
    if elf is None:
        return Linked((path,))
    library_path = _library_path(environ, loader_options)
    loaded = {elf.soname or path.name: _Loaded(path, elf)}
    queue = list(loaded.values())
    missing = []
    while queue:
        asking = queue.pop(0)
        for name in asking.elf.needed:
            if name in loaded or name in missing:
                continue
            found = _find(name, asking, library_path)
            if found is None:
                missing.append(name)
                continue
            loaded[name] = found
            queue.append(found)
    return Linked(tuple(dict.fromkeys(file.path for file in loaded.values())), tuple(missing))


def _library_path(environ: Mapping[str, str], loader_options: Sequence[str]) -> list[Path]:
    options = list(loader_options)
    if "--library-path" in options[:-1]:
        value = options[options.index("--library-path") + 1]
    else:
        value = environ.get("LD_LIBRARY_PATH", "")
    # ld.so(8) takes colons and semicolons; an empty entry is the current directory.
    return [Path(part or ".") for part in value.replace(";", ":").split(":")] if value else []


def _find(name: str, asking: _Loaded, library_path: Sequence[Path]) -> _Loaded | None:
    parents = (asking, *asking.parents)
    if "/" in name:
        elf = _elf_of(Path(name))
        return None if elf is None else _Loaded(Path(name), elf, parents)
    for directory in _directories(asking, library_path):
        candidate = directory / name
        elf = _elf_of(candidate)
        # The loader passes over a library for another machine.
        if elf and (elf.machine, elf.bits) == (asking.elf.machine, asking.elf.bits):
            return _Loaded(candidate, elf, parents)
    return None


def _directories(asking: _Loaded, library_path: Sequence[Path]) -> Iterator[Path]:
    """Where the loader looks, in its order."""
    if not asking.elf.runpath:
        for file in (asking, *asking.parents):
            if not file.elf.runpath:
                yield from _expanded(file.elf.rpath, file.path)
    yield from library_path
    yield from _expanded(asking.elf.runpath, asking.path)
    yield from system_directories()


def _expanded(directories: str, file: Path) -> Iterator[Path]:
    """A DT_RPATH or DT_RUNPATH with its tokens replaced; ORIGIN is where the file really lies, so
    that a ".." behind it means what it seems to."""
    origin = str(file.resolve().parent)
    for part in filter(None, directories.split(":")):
        for token, value in (("ORIGIN", origin), ("LIB", "lib64"), ("PLATFORM", _platform())):
            part = part.replace(f"${token}", value).replace(f"${{{token}}}", value)
        yield Path(os.path.normpath(part))


def _platform() -> str:
    return platform.machine()


@functools.cache
def system_directories() -> tuple[Path, ...]:
    """The directories of ld.so.conf, from which ldconfig makes the loader's cache, and /lib."""
    multiarch = f"{platform.machine()}-linux-gnu"
    trusted = [f"/lib/{multiarch}", f"/usr/lib/{multiarch}", "/lib64", "/usr/lib64", "/lib"]
    found = [*_configured(_CONFIGURATION, _MOST_INCLUDES), *map(Path, trusted), Path("/usr/lib")]
    return tuple(directory for directory in dict.fromkeys(found) if is_directory(directory))


def _configured(file: Path, depth: int) -> Iterator[Path]:
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        words = line.partition("#")[0].split()
        if words[:1] == ["include"] and depth:
            for pattern in words[1:]:
                for included in matching(Path("/"), str(file.parent / pattern).lstrip("/")):
                    yield from _configured(included, depth - 1)
        elif words and words[0].startswith("/"):
            yield Path(words[0])


@functools.lru_cache(maxsize=512)
def _elf_of(path: Path) -> ElfFacts | None:
    try:
        return read_elf(path)
    except OSError:
        return None
