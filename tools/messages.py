"""Everything that command line and shim say to a person when something is wrong, lost or judged.

`messages.py` lists it, to be read as a stranger reads it. `messages.py --reached FILE...` takes
coverage databases of test runs and exits 1 naming each message that no test has brought about: its
line did not run, and no test quotes it (as those do that bring it about out of coverage's reach:
as another user, in a copy of the package, on another kernel, in the shim). Of what the shim says, a
test quotes half of the longest phrase at least. A database that was not written to its end, since
tests kill processes, counts for what can be read of it.
"""

from __future__ import annotations

import ast
import re
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "numamirror_cli"
SHIM = REPOSITORY / "native" / "src"

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
}
# Letters of a message that a test must quote to count as one that brings it about.
QUOTE = 16
# What a message's phrases begin or end with, beside what is put in, and a quotation leaves out.
EDGES = " :;,.()"
# In C: comments, assertions of the compiler, characters; and then what stands in quotes, joined.
NOT_TEXT = re.compile(r"/\*.*?\*/|//[^\n]*|_Static_assert\(.*?\);|'(?:\\.|[^'\\])'", re.DOTALL)
TEXT = re.compile(r'"(?:\\.|[^"\\])*"(?:\s*"(?:\\.|[^"\\])*")*')
CONVERSION = re.compile(r"%%|%[-+#0 ]*[\d*]*(?:\.[\d*]+)?[hlzjt]*[a-zA-Z]")
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
    lines: dict[str, set[int]] = {}
    for database in databases:
        for measured, ran in lines_in(database):
            _, found, inside = measured.rpartition("/numamirror_cli/")
            if found:
                lines.setdefault(inside, set()).update(ran)
    return lines


def lines_in(database: str) -> Iterator[tuple[str, list[int]]]:
    """Measured files and their lines, as far as the database can be read."""
    from coverage import CoverageData
    from coverage.exceptions import CoverageException

    data = CoverageData(database)
    try:
        data.read()
        for measured in data.measured_files():
            yield measured, data.lines(measured) or []
    except (CoverageException, sqlite3.Error) as error:
        print(f"left out, since its process was ended while it wrote: {error}", file=sys.stderr)


def shim_messages() -> list[Message]:
    """What the shim says: each text in its sources of at least three words, {} for values."""
    found: list[Message] = []
    for file in sorted(SHIM.glob("*.c")):
        source = NOT_TEXT.sub(lambda match: "\n" * match[0].count("\n"), file.read_text())
        for match in TEXT.finditer(source):
            line = source.count("\n", 0, match.start()) + 1
            text = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', match[0]))
            # JSON, and what is scanned for in /proc, are for machines.
            if len(text.split()) >= 3 and "\\" not in text and "%*" not in text:
                name = file.relative_to(REPOSITORY).as_posix()
                end = line + match[0].count("\n")
                found.append(Message(name, line, end, "shim", filled_in(text)))
    return found


def filled_in(text: str) -> str:
    """A format of printf(3) as a reader sees it, {} for values."""
    return CONVERSION.sub(lambda match: "%" if match[0] == "%%" else "{}", text)


def is_quoted_in_part(message: Message, tests: str) -> bool:
    """A whole phrase of it, or half of its longest one in a row, stands in a test."""
    phrases = [phrase.strip(EDGES) for phrase in message.text.split("{}")]
    longest = max(phrases, key=len)
    length = (len(longest) + 1) // 2
    halves = (longest[start : start + length] for start in range(len(longest) - length + 1))
    whole = (phrase for phrase in phrases if len(phrase) >= min(QUOTE, len(longest)))
    return any(text in tests for text in (*whole, *halves))


def is_quoted(message: Message, tests: str) -> bool:
    """Some phrase of it, long enough to be no accident, stands in a test."""
    parts = message.text.split(" | ")
    phrases = (phrase.strip(EDGES) for part in parts for phrase in part.split("{}"))
    return any(len(phrase) >= QUOTE and phrase in tests for phrase in phrases)


def unreached(databases: list[str]) -> list[Message]:
    lines = executed_lines(databases)
    tests = texts_of_tests()
    ran = {
        message
        for message in messages()
        if lines.get(message.file, set()).intersection(range(message.line, message.end + 1))
    }
    return [
        *(m for m in messages() if m not in ran and not is_quoted(m, tests)),
        *(m for m in shim_messages() if not is_quoted_in_part(m, tests)),
    ]


def texts_of_tests() -> str:
    """All sources of tests, with texts that go over several lines joined."""
    folders = (REPOSITORY / "tests", REPOSITORY / "native" / "tests")
    kinds = ("*.py", "*.c", "CMakeLists.txt")
    files = sorted(f for folder in folders for kind in kinds for f in folder.rglob(kind))
    sources = (file.read_text() for file in files)
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(sources))


def main() -> None:
    if sys.argv[1:2] == ["--reached"]:
        missing = unreached(sys.argv[2:])
        for message in missing:
            print(f"{message.file}:{message.line}: no test brings about: {message.text}")
        sys.exit(1 if missing else 0)
    for message in [*messages(), *shim_messages()]:
        print(f"{message.file}:{message.line} [{message.maker}] {message.text}")


if __name__ == "__main__":
    main()
