"""Verdicts: what a person should make of the figures, each with its remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from numamirror_cli.quoting import printable
from numamirror_cli.report.folded import Folded, folded_remedy

OK, WARN, BAD = "ok", "warn", "bad"
_STYLES = {OK: "green", WARN: "yellow", BAD: "red"}


@dataclass(frozen=True)
class Verdict:
    """One sentence. level: OK, WARN or BAD. remedy: what to do, a command line where there is
    one, "" where nothing needs doing."""

    level: str
    text: str
    remedy: str = ""


def render_verdicts(verdicts: Sequence[Verdict]) -> RenderableType:
    """A line for each verdict, its remedy indented below."""
    parts: list[RenderableType] = []
    for verdict in verdicts:
        label = Text(f"{verdict.level}: ", style=_STYLES.get(verdict.level, ""))
        parts.append(Folded(label.append(printable(verdict.text), style="default")))
        if verdict.remedy:
            parts.append(Padding(folded_remedy(verdict.remedy), (0, 0, 0, 4)))
    return Group(*parts)


def verdict_json(verdicts: Sequence[Verdict]) -> list[dict[str, str]]:
    """The `verdict` list of `inspect --json`."""
    return [{"level": v.level, "text": v.text, "remedy": v.remedy} for v in verdicts]
