"""What a command line really runs: scripts, env and bundled loaders followed to an ELF image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from numamirror_cli.engine.elf import ElfFacts, read_elf
from numamirror_cli.engine.program import find_program
from numamirror_cli.engine.wrappers import Wrapped, behind, behind_loader, behind_ourselves
from numamirror_cli.errors import NumaMirrorError

# execve(2): a "#!" line is read up to 255 bytes. The kernel follows five interpreters; env and
# bundled loaders come on top.
_SHEBANG_BYTES = 256
_MOST_STEPS = 12


@dataclass(frozen=True)
class Target:
    """A command line, followed as far as its files tell.

    path: the file that the command names.
    chain: path, then each interpreter or program it leads to, as far as it could be followed.
    executed: those of them that the kernel starts as ELF files, in order.
    elf: the image at the end of the chain; None when it is no ELF file or could not be read.
    loader: the command of a bundled loader in the chain ("lib/ld.so", options...), else empty.
    drops_preload: the wrapper that takes LD_PRELOAD away ("env -i"), else "".
    unread: why it is not known what comes behind the end of the chain, else "".
    arguments: those that the last file of the chain is started with.
    variables: what env(1) in the chain adds to its environment.
    """

    path: Path
    chain: tuple[Path, ...]
    executed: tuple[Path, ...] = ()
    elf: ElfFacts | None = None
    loader: tuple[str, ...] = ()
    drops_preload: str = ""
    unread: str = ""
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def image(self) -> Path:
        """The last file of the chain: the one that holds the program's code."""
        return self.chain[-1]


def find_target(command: Sequence[str], environ: Mapping[str, str]) -> Target:
    """Find the program of a command line and follow it to its image.

    Raises NumaMirrorError (127, 126) when there is no program to start. What cannot be followed
    further, or not be read, is no error: the kernel has the last word on what it can run.
    """
    path = find_program(command[0], environ)
    target = Target(path, chain=())
    arguments = list(command[1:])
    for _ in range(_MOST_STEPS):
        target = replace(target, chain=(*target.chain, path), arguments=tuple(arguments))
        try:
            elf = read_elf(path)
            loads = elf is not None and is_loader(path, elf)
            step = (
                _after_elf(path, arguments, loads=loads) if elf else _after_script(path, arguments)
            )
        except OSError as error:
            return replace(target, unread=f"{path}: {error.strerror}")
        if elf and not target.loader:
            target = replace(target, executed=(*target.executed, path))
        target = replace(
            target,
            elf=elf,
            loader=target.loader or ((str(path), *step.options) if loads else ()),
            drops_preload=target.drops_preload or step.drops_preload,
            variables={**target.variables, **step.variables},
            unread=step.unread,
        )
        if not step.command:
            return target
        try:
            path = find_program(step.command[0], environ)
        except NumaMirrorError as error:
            return replace(target, elf=None, unread=error.message)
        arguments = list(step.command[1:])
    return replace(target, elf=None, unread=f"{path}: too many interpreters")


def _after_elf(path: Path, arguments: Sequence[str], *, loads: bool) -> Wrapped:
    """What an ELF file starts. loads: it is a dynamic loader."""
    if not loads:
        return behind(path.name, arguments)
    wrapped = behind_loader(arguments)
    # A loader opens its operand, it does not search PATH for it.
    operand = [word if "/" in word else f"./{word}" for word in wrapped.command[:1]]
    return replace(wrapped, command=(*operand, *wrapped.command[1:]))


def is_loader(path: Path, elf: ElfFacts) -> bool:
    """Whether the file is a dynamic loader (glibc's or musl's), run as a program."""
    named_so = path.resolve().name.startswith(("ld-", "ld.so", "ld64.so"))
    return elf.dynamic and elf.loader is None and (named_so or elf.soname.startswith("ld"))


def _after_script(path: Path, arguments: Sequence[str]) -> Wrapped:
    """What we start ourselves; else the interpreter of a script, and sh for one without "#!", as
    execvp(3) has it."""
    if path.name == "numamirror" and (step := behind_ourselves(arguments)).command:
        return step
    with path.open("rb") as stream:
        head = stream.read(_SHEBANG_BYTES)
    line = head[2:].partition(b"\n")[0].strip(b" \t\r\0").decode(errors="surrogateescape")
    interpreter = line.split(None, 1) if head.startswith(b"#!") else []
    return Wrapped((), (*(interpreter or ["/bin/sh"]), str(path), *arguments))
