"""What the guests need and this machine does not have: a reason to skip, never to fail."""

from __future__ import annotations


class Missing(Exception):
    """Names the thing and, where there is one, the command that would bring it."""

    def __init__(self, thing: str, remedy: str = "") -> None:
        super().__init__(f"{thing} is missing" + (f": {remedy}" if remedy else ""))
