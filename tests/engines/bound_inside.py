"""Makes of a real library one whose calls are bound inside, as -Bsymbolic or protected symbols do.

The file keeps its code and data; only what it tells the loader about its own symbols is changed
(elf(5): DT_SYMBOLIC, and the visibility in st_other).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from elftools.elf.elffile import ELFFile

DT_NULL, DT_SYMBOLIC = 0, 16
STV_PROTECTED = 3
SYMBOL_BYTES, OTHER_OFFSET = 24, 5


def bind_all(library: Path) -> None:
    """The loader looks up every symbol in the library itself first."""
    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".dynamic")
        offset, size = section["sh_offset"], section["sh_size"]
    content = bytearray(library.read_bytes())
    entries = [struct.unpack_from("<qQ", content, at)[0] for at in range(offset, offset + size, 16)]
    end = entries.index(DT_NULL)
    assert end + 1 < len(entries), f"{library}: no room for one more dynamic entry"
    struct.pack_into("<qQ", content, offset + 16 * end, DT_SYMBOLIC, 0)
    library.write_bytes(content)


def bind(library: Path, is_meant: Callable[[str], bool]) -> int:
    """Only those of its own symbols; returns how many."""
    content = bytearray(library.read_bytes())
    count = 0
    with library.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".dynsym")
        for index, symbol in enumerate(table.iter_symbols()):
            if symbol["st_shndx"] != "SHN_UNDEF" and is_meant(symbol.name):
                content[table["sh_offset"] + index * SYMBOL_BYTES + OTHER_OFFSET] = STV_PROTECTED
                count += 1
    library.write_bytes(content)
    return count
