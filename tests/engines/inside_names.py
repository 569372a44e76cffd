"""Names functions of a program by its symbol table, which the loader does not read."""

from __future__ import annotations

import functools
from bisect import bisect_right
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile


def named(report: dict[str, Any], program: Path) -> dict[str, Any]:
    """poison's report, its frames "PROGRAM+0x12ab" replaced by the functions that lie there."""
    return {key: chains_named(value, program) for key, value in report.items()}


def chains_named(value: Any, program: Path) -> Any:
    if not isinstance(value, list):
        return value
    return [
        {**booked, "chain": [function_at(frame, program) for frame in booked["chain"]]}
        for booked in value
    ]


def function_at(frame: str, program: Path) -> str:
    name, plus, offset = frame.rpartition("+0x")
    if not plus or name != program.name:
        return frame
    starts, functions = function_table(program)
    at = bisect_right(starts, int(offset, 16)) - 1
    return functions[at] if at >= 0 else frame


@functools.cache
def function_table(program: Path) -> tuple[list[int], list[str]]:
    """Where functions begin, from the program's first byte in memory, and their names."""
    with program.open("rb") as stream:
        file = ELFFile(stream)
        low = min(segment["p_vaddr"] for segment in file.iter_segments("PT_LOAD"))
        table: Any = file.get_section_by_name(".symtab")
        found = sorted(
            (symbol["st_value"] - low, symbol.name)
            for symbol in table.iter_symbols()
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_value"]
        )
    return [start for start, _ in found], [name for _, name in found]
