"""Something that the user should know, as facts: what is lost or done, why, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Notice:
    """Three phrases, each of which may be empty but the first. level: "warn" or "info".

    The shim's `note` events carry the same three (docs/protocol.md).
    """

    what: str
    why: str = ""
    remedy: str = ""
    level: str = "warn"
