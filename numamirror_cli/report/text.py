"""Lines: where they may be folded, and where not."""

from __future__ import annotations

import re
import textwrap

# "98 %", "1.5 GiB": the blank that must stay. In its place, while lines are folded, a character
# that no text of ours or of a kernel holds (private use).
_UNIT = re.compile(r"(?<=\d) (?=%|B\b|[KMGT]iB\b|GB/s|[mn]?s\b)")
_KEPT = "\ue000"
# A word of a command line as shell_line writes it.
_SHELL_WORD = re.compile(r"(?:[^\s'\"]|'[^']*'|\"[^\"]*\"|['\"])+")


def kept_together(text: str) -> str:
    """As long as before, with a character between number and unit at which no line is folded."""
    return _UNIT.sub(_KEPT, text)


def set_free(text: str) -> str:
    """What kept_together changed, changed back."""
    return text.replace(_KEPT, " ")


def folded_line(line: str, width: int) -> str:
    """A message of one line folded to that width, what follows the first line indented.

    Words longer than a line, such as paths, are left for the terminal to break.
    """
    parts = textwrap.wrap(
        kept_together(line),
        width,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return set_free("\n".join(parts))


def folded_command(line: str, width: int) -> list[str]:
    """A command line in lines of that width, which a shell takes back as one: each but the last
    ends in a backslash. What is quoted is kept together, and a word longer than a line as well.
    """
    words = _SHELL_WORD.findall(line)
    lines = [words[0]] if words else []
    for number, word in enumerate(words[1:], 2):
        # All but the last word need room for a backslash behind them.
        room = width if number == len(words) else width - len(" \\")
        if len(lines[-1]) + 1 + len(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines[-1] += " \\"
            lines.append(word)
    return lines
