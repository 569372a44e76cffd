"""Everything that the command line says to a person when something is wrong, lost or judged.

`messages.py` lists it, to be read as a stranger reads it. `messages.py --reached FILE...` takes
coverage databases of test runs and exits 1 naming each message that no test has brought about: its
line did not run, and no test quotes it (as those do that bring it about out of coverage's reach:
as another user, in a copy of the package, on another kernel).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "numamirror_cli"

# What makes a message, and which of its arguments a person reads.
MAKERS = {
    "NumaMirrorError": ("message", "hint"),
    "Notice": ("what", "why", "remedy"),
    "Verdict": ("", "text", "remedy"),
    "Refusal": ("", "", "cause", "remedy"),
    "UsageError": ("message",),
    "BadParameter": ("message",),
    "Check": ("", "", "text", "remedy"),
    "say": ("line",),
    "_say": ("line",),
}
# Letters of a message that a test must quote to count as one that brings it about.
QUOTE = 16
KEYWORDS = {"message", "hint", "what", "why", "remedy", "text", "cause"}


@dataclass(frozen=True)
class Message:
    """file: in the package; line, end: where it is made; maker: the class or function; text: its
    phrases, with {} for what is put in."""

    file: str
    line: int
    end: int
    maker: str
    text: str


def messages() -> list[Message]:
    """Of the whole package, in the order of files and lines."""
    found: list[Message] = []
    for file in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(file.read_text())
        name = file.relative_to(PACKAGE).as_posix()
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (maker := maker_of(node)):
                text = " | ".join(filter(None, map(template, read_arguments(node, maker))))
                if any(character.isalpha() for character in text.replace("{}", "")):
                    end = node.end_lineno or node.lineno
                    found.append(Message(name, node.lineno, end, maker, text))
    return sorted(found, key=lambda message: (message.file, message.line))


def maker_of(call: ast.Call) -> str:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name if name in MAKERS else ""


def read_arguments(call: ast.Call, maker: str) -> Iterator[ast.expr]:
    for name, argument in zip(MAKERS[maker], call.args, strict=False):
        if name:
            yield argument
    for keyword in call.keywords:
        if keyword.arg in KEYWORDS:
            yield keyword.value


def template(node: ast.expr) -> str:
    """The literal text, with {} for each value."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) for part in node.values)
    if isinstance(node, ast.BinOp):
        return template(node.left) + template(node.right)
    if isinstance(node, ast.IfExp):
        return f"{template(node.body)} / {template(node.orelse)}"
    return "{}"


def executed_lines(databases: list[str]) -> dict[str, set[int]]:
    """Lines that ran, by file of the package, whichever installation of it ran."""
    from coverage import CoverageData

    lines: dict[str, set[int]] = {}
    for database in databases:
        data = CoverageData(database)
        data.read()
        for measured in data.measured_files():
            _, found, inside = measured.rpartition("/numamirror_cli/")
            if found:
                lines.setdefault(inside, set()).update(data.lines(measured) or ())
    return lines


def is_quoted(message: Message, tests: str) -> bool:
    """Some phrase of it, long enough to be no accident, stands in a test."""
    phrases = (phrase.strip() for part in message.text.split(" | ") for phrase in part.split("{}"))
    return any(len(phrase) >= QUOTE and phrase in tests for phrase in phrases)


def unreached(databases: list[str]) -> list[Message]:
    lines = executed_lines(databases)
    tests = "\n".join(file.read_text() for file in sorted((REPOSITORY / "tests").rglob("*.py")))
    return [
        message
        for message in messages()
        if not lines.get(message.file, set()).intersection(range(message.line, message.end + 1))
        and not is_quoted(message, tests)
    ]


def main() -> None:
    if sys.argv[1:2] == ["--reached"]:
        missing = unreached(sys.argv[2:])
        for message in missing:
            print(f"{message.file}:{message.line}: no test brings about: {message.text}")
        sys.exit(1 if missing else 0)
    for message in messages():
        print(f"{message.file}:{message.line} [{message.maker}] {message.text}")


if __name__ == "__main__":
    main()
