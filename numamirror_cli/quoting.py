"""Text that others chose (names of files and processes, arguments), fit to be shown or typed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

# As a shell spells them in $'...'; any other byte is \xNN.
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\"}


def printable(text: str) -> str:
    """`text` with everything that could steer a terminal or end a line escaped:
    "a\x1b[2J" -> "a\\x1b[2J"."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shell_word(word: str) -> str:
    """A word as a shell takes it back, on one line: 'a b', and $'a\\nb' where something in it is
    not printable (bash, zsh, ksh, and sh since POSIX of 2024)."""
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_in_dollar_quotes, word)) + "'"


def shell_line(words: Iterable[str]) -> str:
    """A command line of those words."""
    return " ".join(map(shell_word, words))


def _in_dollar_quotes(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    # An apostrophe as well, so that a quotation ends where the next one stands.
    if character.isprintable() and character != "'":
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogateescape"))
