"""What a running process has loaded and how it is confined, for engine/examination.py."""

from __future__ import annotations

from pathlib import Path

from numamirror_cli.engine.directories import is_file
from numamirror_cli.engine.examination import Running
from numamirror_cli.memory.maps import Extent, read_maps
from numamirror_cli.memory.process import proc_dir, read_process, reading
from numamirror_cli.memory.seccomp import read_seccomp


def read_running(pid: int, root: Path = Path("/")) -> Running:
    """The process as its maps show it. Raises NumaMirrorError when it is gone or may not be read.

    Its files are named as we reach them: a process in a container has a root of its own.
    """
    process = read_process(pid, root)
    mapped = (
        _as_we_reach_it(pid, extent, root)
        for extent in read_maps(pid, root)
        if extent.executable and extent.inode
    )
    return Running(
        pid=pid,
        program=_program(pid, root),
        arguments=process.arguments,
        mapped=tuple(dict.fromkeys(mapped)),
        environ=_environment(pid, root),
        seccomp=read_seccomp(pid, root),
    )


def _program(pid: int, root: Path) -> Path:
    """By its own name where that leads to it; else through /proc, as for a file that is gone."""
    link = proc_dir(pid, root) / "exe"
    with reading(pid, "exe", root):
        named = link.readlink()
        return named if is_file(named) and named.samefile(link) else link


def _as_we_reach_it(pid: int, extent: Extent, root: Path) -> Path:
    named = Path(extent.name)
    inside = proc_dir(pid, root) / "root" / extent.name.lstrip("/")
    try:
        # The same file under the same name: the usual case, and the name that people know.
        if named.is_file() and named.samefile(inside):
            return named
    except OSError:
        return named
    return inside


def _environment(pid: int, root: Path) -> dict[str, str]:
    try:
        content = (proc_dir(pid, root) / "environ").read_bytes().decode(errors="surrogateescape")
    except OSError:
        return {}
    pairs = (entry.partition("=") for entry in content.split("\0"))
    return {name: value for name, equals, value in pairs if equals}
