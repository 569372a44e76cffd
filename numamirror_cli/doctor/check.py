"""One line of `doctor`."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARN, BAD = "ok", "warn", "bad"


@dataclass(frozen=True)
class Check:
    """name: what was looked at; level: OK, WARN or BAD; text: what was found, a sentence; remedy:
    what to do, a command line where there is one, "" where nothing needs doing."""

    name: str
    level: str
    text: str
    remedy: str = ""
