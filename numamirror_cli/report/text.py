"""Text from other processes, made safe to print."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` with everything that could steer a terminal escaped: "a\\x1b[2J" -> "a\\\\x1b[2J"."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
