"""Roots that come as an archive: what `topology --gather` wrote, or a dump of another tool."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from numamirror_cli.errors import NumaMirrorError

if TYPE_CHECKING:
    from tarfile import TarFile

# An archive comes from a stranger: what it may make us write is bounded.
MOST_BYTES = 256 << 20
MOST_MEMBERS = 200_000
_MAKES_ONE = "numamirror topology --gather FILE.tar.xz makes a dump"


@contextmanager
def open_root(path: Path) -> Iterator[Path]:
    """The root that `path` is or, for a tar archive (any compression), holds: unpacked into a
    temporary directory until the end of the `with`.

    Raises NumaMirrorError (exit 2) for a file that is no such archive, or that would unpack
    outside its directory, and for what holds neither sys nor proc: that is no machine at all.
    """
    if path.is_dir():
        yield _checked(path, path)
        return
    # 10 ms that a directory need not pay.
    import lzma
    import tarfile

    with _temporary_directory(path) as directory:
        try:
            with tarfile.open(path) as archive:
                _unpack(archive, path, Path(directory))
        except (tarfile.TarError, lzma.LZMAError, EOFError, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise _no_room(path, error) from None
            # tarfile has a line for each compression that it is not: the first says it all.
            why, *_ = str(error).splitlines()
            raise NumaMirrorError(
                f"{path}: neither a directory nor a readable tar archive: {why.rstrip(':')}",
                hint=_MAKES_ONE,
                exit_code=2,
            ) from error
        yield _checked(_only_directory(Path(directory)), path)


@contextmanager
def _temporary_directory(path: Path) -> Iterator[str]:
    import tempfile

    try:
        directory = tempfile.TemporaryDirectory(prefix="numamirror-")
    except OSError as error:
        raise _no_room(path, error) from None
    with directory as name:
        yield name


def _no_room(path: Path, error: OSError) -> NumaMirrorError:
    return NumaMirrorError(
        f"{path}: cannot be unpacked: {error.strerror}",
        hint="let TMPDIR name a directory with room, or unpack it yourself: tar -xf",
    )


def _checked(directory: Path, path: Path) -> Path:
    if (directory / "sys").is_dir() or (directory / "proc").is_dir():
        return directory
    raise NumaMirrorError(
        f"{path}: no dump of a machine: it holds neither sys nor proc",
        hint=_MAKES_ONE,
        exit_code=2,
    )


def _unpack(archive: TarFile, path: Path, directory: Path) -> None:
    """Regular files and links that stay inside; nothing else is of use here."""
    left = MOST_BYTES
    for number, member in enumerate(archive):
        left -= member.size
        if left < 0 or number >= MOST_MEMBERS:
            raise NumaMirrorError(
                f"{path}: larger than any dump of a machine", hint=_MAKES_ONE, exit_code=2
            )
        target = directory / member.name
        if not _is_inside(directory, target):
            raise NumaMirrorError(
                f"{path}: {member.name} lies outside the archive", hint=_MAKES_ONE, exit_code=2
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        if member.issym() and _is_inside(directory, target.parent / member.linkname):
            target.symlink_to(member.linkname)
        elif member.isfile() and (content := archive.extractfile(member)) is not None:
            target.write_bytes(content.read())


def _is_inside(directory: Path, target: Path) -> bool:
    """Links on the way are followed, so that none of them leads out."""
    real = Path(os.path.realpath(target))
    return real.is_relative_to(os.path.realpath(directory))


def _only_directory(directory: Path) -> Path:
    """Dumps are packed as NAME/sys, NAME/proc; a bare sys/ and proc/ will do as well."""
    inside = list(directory.iterdir())
    is_packed_in_one = len(inside) == 1 and inside[0].is_dir() and inside[0].name != "sys"
    return inside[0] if is_packed_in_one else directory
