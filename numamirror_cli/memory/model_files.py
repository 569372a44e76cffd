"""The model files that a command line names, and how large they are together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.memory.process import Process, proc_dir
from numamirror_cli.quoting import shell_word

# How split files are numbered: NAME-00001-of-00003.gguf.
_PART = re.compile(r"(.*-)(\d{5})-of-(\d{5})(\.gguf)", re.IGNORECASE)


@dataclass(frozen=True)
class Model:
    """A model as its engine was told of it. bytes: of all its parts; missing: parts not found."""

    path: str
    parts: tuple[Path, ...]
    bytes: int
    missing: tuple[Path, ...] = ()


def named_models(process: Process, root: Path = Path("/")) -> tuple[Model, ...]:
    """The GGUF files among a process's arguments that can be found from where it runs."""
    names = [word.rpartition("=")[2] for word in process.arguments[1:]]
    seen_from = [_seen_from(process.pid, name, root) for name in names if is_weights_file(name)]
    models = (find_model(path) for path in dict.fromkeys(seen_from))
    return tuple(model for model in models if model.bytes)


def is_weights_file(path: str) -> bool:
    """A GGUF file by its name, deleted or not."""
    return path.removesuffix(" (deleted)").lower().endswith(".gguf")


def find_model(path: Path) -> Model:
    """The model of that file: a split one is followed to all its parts. bytes is 0 if none is."""
    parts = split_parts(path)
    sizes = {part: _size(part) for part in parts}
    there = tuple(part for part in parts if sizes[part] is not None)
    missing = tuple(part for part in parts if sizes[part] is None)
    return Model(str(path), there, sum(size or 0 for size in sizes.values()), missing)


def split_parts(path: Path) -> tuple[Path, ...]:
    """All parts of a split GGUF file, given any of them; the file itself when it is not split."""
    match = _PART.fullmatch(path.name)
    if match is None:
        return (path,)
    start, _, count, suffix = match.groups()
    return tuple(
        path.with_name(f"{start}{number:05d}-of-{count}{suffix}")
        for number in range(1, int(count) + 1)
    )


def not_there(path: Path) -> str:
    """Why a part of a model was not found: "m.gguf: there is no such file", or what forbids it."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        return f"{path}: {error.strerror}"
    return f"{path}: there is no such file"


def find_parts(path: Path) -> str:
    """What to do about a part that was not found."""
    directory = shell_word(str(path.parent))
    if _PART.fullmatch(path.name):
        return f"a split model is read in all its parts, from one directory: ls -l {directory}"
    return f"ls -l {directory} shows what is there"


def _seen_from(pid: int, name: str, root: Path) -> Path:
    """The path by which we reach what the process calls `name`: its own root and directory."""
    base = proc_dir(pid, root)
    return base / "root" / name.lstrip("/") if name.startswith("/") else base / "cwd" / name


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
