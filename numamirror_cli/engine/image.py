"""Which functions an ELF file defines, and which of its calls a preload can answer.

A preloaded function is reached only where the loader looks the name up: through a relocation
against the symbol (JUMP_SLOT of a PLT, GLOB_DAT, or a plain pointer in data). Calls that were
resolved when the file was linked (LTO, -Bsymbolic, hidden symbols, static programs) have none.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numamirror_cli.engine.elf import (
    ElfFacts,
    errors_of_broken_files,
    is_for_this_machine,
    read_elf,
)

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

# Pointer, GLOB_DAT and JUMP_SLOT relocations, as the psABI of each machine numbers them.
_LOOKED_UP = {"EM_X86_64": (1, 6, 7), "EM_AARCH64": (257, 1025, 1026)}
_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym: name, info, other, section, value, size
_RELOCATION = struct.Struct("<QQq")  # Elf64_Rela: offset, info, addend
_UNDEFINED, _PROTECTED, _DF_SYMBOLIC = 0, 3, 2


@dataclass(frozen=True)
class Image:
    """A program or library, seen through a collection of names.

    defines: those that it exports, with their addresses. hidden: the same of those that only its
    symbol table for debuggers (.symtab) names. open_calls: those that the loader looks up for it,
    so that a preload can answer. is_program: it is started, not loaded; what it defines comes
    before any preload.
    """

    path: Path
    elf: ElfFacts
    defines: Mapping[str, int] = field(default_factory=dict)
    hidden: Mapping[str, int] = field(default_factory=dict)
    open_calls: frozenset[str] = frozenset()

    @property
    def is_program(self) -> bool:
        return self.elf.is_program


@functools.lru_cache(maxsize=512)
def read_image(path: Path, names: frozenset[str]) -> Image | None:
    """The file as seen through those names; None for what is no ELF file, or a broken one.

    A file for another machine has no symbols here. Raises OSError when it cannot be read.
    """
    elf = read_elf(path)
    if elf is None or not is_for_this_machine(elf):
        return None if elf is None else Image(path, elf)
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as stream:
        try:
            return _parse(path, elf, ELFFile(stream), names)
        except errors_of_broken_files():
            return Image(path, elf)


def _parse(path: Path, elf: ElfFacts, file: ELFFile, names: Collection[str]) -> Image:
    section = file.get_section_by_name(".dynsym")
    exported = list(_symbols(file, section, names)) if section else []
    defines = {s.name: s.address for s in exported if s.defined}
    kept = _bound_to_itself(file, exported)
    looked_up = set(_looked_up(file, elf.machine, exported))
    table = file.get_section_by_name(".symtab")
    in_table = [s for s in _symbols(file, table, names) if s.defined] if table else []
    return Image(
        path,
        elf,
        defines=defines,
        hidden={s.name: s.address for s in in_table if s.name not in defines},
        open_calls=frozenset(looked_up - kept),
    )


@dataclass(frozen=True)
class _Symbol:
    index: int
    name: str
    defined: bool
    protected: bool
    address: int


def _symbols(file: ELFFile, section: Any, names: Collection[str]) -> Iterator[_Symbol]:
    """Those symbols of a table whose names are asked for."""
    strings = file.get_section(section["sh_link"]).data()
    for index, entry in enumerate(_SYMBOL.iter_unpack(section.data())):
        start, _, other, where, value, _ = entry
        name = strings[start : strings.index(b"\0", start)].decode(errors="replace")
        if name in names:
            yield _Symbol(index, name, where != _UNDEFINED, other & 3 == _PROTECTED, value)


def _looked_up(file: ELFFile, machine: str, symbols: Collection[_Symbol]) -> Iterator[str]:
    by_index = {symbol.index: symbol.name for symbol in symbols}
    kinds = _LOOKED_UP[machine]
    for section in file.iter_sections("SHT_RELA"):
        for _, info, _ in _RELOCATION.iter_unpack(section.data()):
            if info >> 32 in by_index and info & 0xFFFFFFFF in kinds:
                yield by_index[info >> 32]


def _bound_to_itself(file: ELFFile, symbols: Collection[_Symbol]) -> set[str]:
    """Names that the loader finds in the file itself first, whatever is preloaded (ld.so(8))."""
    dynamic: Any = file.get_section_by_name(".dynamic")
    tags = {tag.entry.d_tag: tag.entry.d_val for tag in dynamic.iter_tags()} if dynamic else {}
    symbolic = "DT_SYMBOLIC" in tags or bool(tags.get("DT_FLAGS", 0) & _DF_SYMBOLIC)
    return {s.name for s in symbols if s.defined and (symbolic or s.protected)}
