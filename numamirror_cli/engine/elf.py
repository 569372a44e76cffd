"""What an ELF file says about how it will be loaded. Read with pyelftools; see elf(5)."""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

# platform.machine() -> e_machine names, for the machines that NumaMirror is built for.
_OUR_MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}

_DF_1_PIE = 0x08000000

# Sanitizer runtimes, which refuse to start when another library comes before them.
_SANITIZERS = ("libasan.so", "libhwasan.so", "liblsan.so", "libtsan.so", "libclang_rt.")


@dataclass(frozen=True)
class ElfFacts:
    """How a program or library is loaded.

    machine: e_machine by name ("EM_X86_64"); bits: 32 or 64.
    loader: PT_INTERP, None when the kernel loads it without a dynamic loader.
    dynamic: it has a PT_DYNAMIC segment.
    soname: DT_SONAME or "".
    needed: DT_NEEDED in order.
    rpath, runpath: DT_RPATH and DT_RUNPATH, as the file spells them, colons between directories.
    pie: marked as a position-independent program (DF_1_PIE).
    """

    machine: str
    bits: int
    loader: str | None
    dynamic: bool
    soname: str
    needed: tuple[str, ...]
    rpath: str = ""
    runpath: str = ""
    pie: bool = False

    @property
    def is_program(self) -> bool:
        """It is started; other files are loaded. (libc, which can be both, counts as started.)"""
        return self.loader is not None or not self.dynamic or self.pie

    @property
    def uses_musl(self) -> bool:
        """Loaded by musl's loader, or linked against musl."""
        names = (self.loader or "", self.soname, *self.needed)
        return any("ld-musl" in name or "libc.musl" in name for name in names)

    @property
    def sanitizers(self) -> tuple[str, ...]:
        """Sanitizer runtimes that it is linked with; they must be loaded before all else."""
        return tuple(name for name in self.needed if name.startswith(_SANITIZERS))


def read_elf(path: Path) -> ElfFacts | None:
    """The facts of an ELF file; None for any other file, and for a broken ELF file.

    Raises OSError when the file cannot be read.
    """
    with path.open("rb") as stream:
        if stream.read(4) != b"\x7fELF":
            return None
        return _parse(stream)


def is_for_this_machine(elf: ElfFacts) -> bool:
    """Whether this machine runs it natively and NumaMirror's shim can be loaded into it."""
    ours = _OUR_MACHINES.get(platform.machine())
    return elf.machine == ours and elf.bits == 64


def _parse(stream: BinaryIO) -> ElfFacts | None:
    # Imported here: it costs more than all the rest of this file, and scripts don't need it.
    from elftools.elf.dynamic import DynamicSegment
    from elftools.elf.elffile import ELFFile
    from elftools.elf.segments import InterpSegment

    try:
        elf = ELFFile(stream)
        loader, dynamic, pie = None, False, False
        soname, rpath, runpath = "", "", ""
        needed: tuple[str, ...] = ()
        for segment in elf.iter_segments():
            if isinstance(segment, InterpSegment):
                loader = str(segment.get_interp_name())
            elif isinstance(segment, DynamicSegment):
                dynamic = True
                needed = tuple(_strings(segment, "DT_NEEDED", "needed"))
                soname = next(_strings(segment, "DT_SONAME", "soname"), "")
                rpath = next(_strings(segment, "DT_RPATH", "rpath"), "")
                runpath = next(_strings(segment, "DT_RUNPATH", "runpath"), "")
                flags = (tag.entry.d_val for tag in segment.iter_tags("DT_FLAGS_1"))
                pie = any(value & _DF_1_PIE for value in flags)
        return ElfFacts(
            str(elf["e_machine"]),
            elf.elfclass,
            loader,
            dynamic,
            soname,
            needed,
            rpath,
            runpath,
            pie,
        )
    except errors_of_broken_files():
        return None


def errors_of_broken_files() -> tuple[type[Exception], ...]:
    """What pyelftools raises on a truncated or scrambled file, wherever its parsing trips."""
    from elftools.common.exceptions import ELFError
    from elftools.construct import ConstructError

    return (
        *(ELFError, ConstructError, struct.error, LookupError, ValueError, ArithmeticError),
        *(AttributeError, TypeError, OSError, MemoryError),
    )


def _strings(segment: Any, tag: str, attribute: str) -> Iterator[str]:
    for entry in segment.iter_tags(tag):
        yield str(getattr(entry, attribute))
