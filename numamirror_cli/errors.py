"""The one error class of NumaMirror. It is raised anywhere and shown once, in cli.py."""

from __future__ import annotations


class NumaMirrorError(Exception):
    """A failure of ours that the user can act on.

    message: what failed and why, one line, naming the input.
    hint: the remedy, one line.
    exit_code: 1 for a diagnostic that could not be made, 2 for bad usage,
        125/126/127 for `run` as in coreutils' timeout(1) and env(1).
    """

    def __init__(self, message: str, *, hint: str | None = None, exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
