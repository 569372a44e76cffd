"""How amounts of memory are spelled: binary units, as numastat and the kernel mean them."""

from __future__ import annotations

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40

_UNITS = (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB))


def mib(count: int | float) -> float:
    """Bytes as MiB, unrounded: 246415360 -> 235.0."""
    return count / MIB


def size(count: int | float) -> str:
    """Bytes in the unit a person would choose: "235 MiB", "1.5 GiB", "512 B".

    The largest unit in which the amount is at least 1; one decimal below 10 of it (none when that
    is a whole number), none above. Negative amounts keep their sign.
    """
    if count < 0:
        return "-" + size(-count)
    for position, (name, unit) in enumerate(_UNITS):
        # What would be rounded up to 1024 of a unit is 1 of the next.
        if count >= unit - unit // 2048:
            amount = count / unit
            text = f"{amount:.1f}".removesuffix(".0") if amount < 9.95 else f"{amount:.0f}"
            if text == "1024" and position:
                return f"1 {_UNITS[position - 1][0]}"
            return f"{text} {name}"
    return f"{count:.0f} B"


def part_of(part: int, whole: int) -> str:
    """ "235 of 235 MiB": the unit once, where both have it."""
    first, second = size(part), size(whole)
    if first.split()[-1] == second.split()[-1] and part >= MIB:
        return f"{first.split()[0]} of {second}"
    return f"{first} of {second}"
