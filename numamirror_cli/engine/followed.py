"""From a command, a file or a running process to the files that it loads, as far as can be seen.

Scripts, wrappers and bundled loaders are followed to the program, programs to what they are linked
with, Python commands to the packages that they import, engines to the variants beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.engine.directories import is_directory, matching
from numamirror_cli.engine.elf import read_elf
from numamirror_cli.engine.engines import backends_beside, read_images
from numamirror_cli.engine.libraries import linked_files
from numamirror_cli.engine.python_imports import imported_libraries, read_python_command
from numamirror_cli.engine.python_path import is_python
from numamirror_cli.engine.shell_words import is_shell, named_programs
from numamirror_cli.engine.target import Target, find_target
from numamirror_cli.errors import NumaMirrorError

# Programs that load what a script tells them to, in ways that are not followed here.
_OTHER_INTERPRETERS = {"node", "nodejs", "bun", "deno", "ruby", "java", "dotnet", "perl", "php"}


@dataclass(frozen=True)
class Followed:
    """target: the command, None for a library by itself. started: further programs that its
    script or its arguments name. files: the program and all that it loads, as far as followed.

    missing: libraries that are in no directory. unfollowed: where more may be loaded, as phrases.
    """

    target: Target | None
    files: tuple[Path, ...]
    started: tuple[Target, ...] = ()
    missing: tuple[str, ...] = ()
    unfollowed: tuple[str, ...] = ()


def follow_command(command: Sequence[str], environ: Mapping[str, str]) -> Followed:
    """Follow a command line. Raises NumaMirrorError (127, 126) when there is no program."""
    target = find_target(command, environ)
    environ = {**environ, **target.variables}
    roots, unfollowed = _loaded_by(target, environ)
    started = tuple(_named_by_script(target, environ))
    for other in started:
        more, _ = _loaded_by(other, environ)
        roots += more
    followed = _with_linked(target, roots, environ)
    if target.unread:
        unfollowed.append(target.unread)
    return Followed(target, followed.files, started, followed.missing, tuple(unfollowed))


def follow_library(path: Path, environ: Mapping[str, str]) -> Followed:
    """Follow a library by itself, whatever program loads it."""
    return _with_linked(None, [path], environ)


def follow_beside(target: Target, environ: Mapping[str, str]) -> Followed:
    """Engines that a program brings with it and loads by itself: beside it, or in ../lib/NAME.

    So it is with ollama, whose runner finds its libraries from where the program lies.
    """
    home = target.image.resolve().parent
    near = [home, home / "lib", home.parent / "lib" / target.image.name]
    directories = [*near, *(path for path in matching(near[-1], "*") if is_directory(path))]
    roots = [file for directory in directories for file in matching(directory, "*ggml*.so*")]
    return _with_linked(None, roots, environ)


def named_in_arguments(target: Target, environ: Mapping[str, str]) -> Followed:
    """What the arguments of a command name: programs, libraries, directories of libraries.

    Launchers take the engine's place so; it is looked for there when it is found nowhere else.
    """
    roots = [file for word in target.arguments for file in _named_by(word)]
    return _with_linked(None, roots, environ)


def program_arguments(target: Target) -> tuple[str, ...]:
    """The arguments that the program itself reads: behind a script's name, for an interpreter."""
    if is_python(target.image):
        return read_python_command(target.arguments).arguments
    if is_shell(target.image):
        return () if target.unread else target.arguments[1:]
    return target.arguments


def _loaded_by(target: Target, environ: Mapping[str, str]) -> tuple[list[Path], list[str]]:
    """The files where following begins, and what cannot be followed."""
    program = target.image
    roots = [program] if target.elf else []
    if is_python(program):
        imports = imported_libraries(program, target.arguments, environ)
        found = f"{program.name}: {imports.unfollowed}" if imports.unfollowed else ""
        return [*roots, *imports.libraries], [found] if found else []
    if program.name in _OTHER_INTERPRETERS:
        return roots, [f"what a script makes {program.name} load is not followed"]
    return roots, []


def _named_by_script(target: Target, environ: Mapping[str, str]) -> Iterator[Target]:
    if not is_shell(target.image) or target.unread:
        return
    script = next((Path(word) for word in target.arguments if not word.startswith("-")), None)
    for program in named_programs(script, environ) if script else ():
        try:
            yield find_target([str(program)], environ)
        except NumaMirrorError:
            continue


def _named_by(word: str) -> Iterator[Path]:
    value = word.partition("=")[2] if word.startswith("--") and "=" in word else word
    try:
        path = Path(value)
        if path.is_dir():
            yield from sorted({*path.glob("*ggml*.so*"), *path.glob("*llama*.so*")})
        elif path.is_file() and read_elf(path) is not None:
            yield path
    except (OSError, ValueError):  # no path at all: a prompt, or a name that is too long
        return


def _with_linked(
    target: Target | None, roots: Sequence[Path], environ: Mapping[str, str]
) -> Followed:
    files: dict[Path, None] = {}
    missing: dict[str, None] = {}
    options = target.loader[1:] if target else ()
    for root in roots:
        linked = linked_files(root, environ, options)
        files.update(dict.fromkeys(linked.files))
        missing.update(dict.fromkeys(linked.missing))
    files.update(dict.fromkeys(_variants(list(files), environ)))
    return Followed(target, tuple(files), missing=tuple(missing))


def _variants(files: Sequence[Path], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """CPU backends that ggml loads by itself, from beside the program or the library."""
    directories = dict.fromkeys(file.resolve().parent for file in files)
    if named := environ.get("GGML_BACKEND_PATH"):
        directories[Path(named).parent] = None
    return backends_beside(read_images(files), directories)
