"""The kernel's two spellings of CPU and node sets: lists ("0-3,8") and masks ("ff,ffffffff")."""

from __future__ import annotations

from collections.abc import Iterable


def parse_list(text: str) -> frozenset[int]:
    """Parse a cpulist or nodelist: "0-3,8", "0-8:2/4" groups included; "" is the empty set.

    Trailing NULs and white space, seen after the newline on real machines, are ignored.
    Raises ValueError naming the text (bitmap_parselist in the kernel's lib/bitmap-str.c).
    """
    members: set[int] = set()
    for part in text.strip("\0 \t\n").split(","):
        if part := part.strip():
            members.update(_parse_range(part, text))
    return frozenset(members)


def _parse_range(part: str, whole: str) -> Iterable[int]:
    bounds, _, group = part.partition(":")
    low_text, dash, high_text = bounds.partition("-")
    used_text, slash, size_text = group.partition("/")
    try:
        low = _number(low_text)
        high = _number(high_text) if dash else low
        size = _number(size_text) if slash else 1
        used = _number(used_text) if slash else 1
    except ValueError:
        raise ValueError(f"not a CPU or node list: {whole!r}") from None
    if high < low or high > 1 << 20 or not 0 < used <= size:
        raise ValueError(f"not a CPU or node list: {whole!r}")
    return (n for n in range(low, high + 1) if (n - low) % size < used)


def _number(text: str) -> int:
    """A plain number: int() alone takes "1_0" and "+1" too, of which a person means neither."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"not a number: {text!r}")
    return int(text)


def parse_mask(text: str) -> frozenset[int]:
    """Parse a mask of comma-separated 32-bit hex words, most significant first.

    Raises ValueError naming the text.
    """
    words = text.strip("\0 \t\n").split(",")
    try:
        value = int("".join(word.strip().rjust(8, "0") for word in words), 16)
    except ValueError:
        raise ValueError(f"not a CPU mask: {text!r}") from None
    if value < 0 or any(len(word.strip()) > 8 for word in words[1:]):
        raise ValueError(f"not a CPU mask: {text!r}")
    return frozenset(bit for bit in range(value.bit_length()) if value >> bit & 1)


def format_list(members: Iterable[int]) -> str:
    """The kernel's list spelling, "" for the empty set: {0, 1, 2, 8} -> "0-2,8"."""
    parts: list[str] = []
    ordered = sorted(members)
    start = 0
    for index, value in enumerate(ordered):
        if index + 1 < len(ordered) and ordered[index + 1] == value + 1:
            continue
        low = ordered[start]
        parts.append(str(low) if low == value else f"{low}-{value}")
        start = index + 1
    return ",".join(parts)
