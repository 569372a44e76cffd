"""`make man`: the manual pages, from the commands' own help and what is written by hand.

Names, synopsis, description and options come from click, the environment from the table of
docs/protocol.md, version and date from CHANGELOG.md; man/PAGE.inc has the sections that nobody
can generate. Pages are mdoc(7). `make_man.py --check` writes nothing and exits 1 when a page is
not current.
"""

from __future__ import annotations

import datetime
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from numamirror_cli import __version__  # noqa: E402
from numamirror_cli.cli import COMMANDS, cli  # noqa: E402

MAN = REPOSITORY / "man"


def pages() -> dict[Path, str]:
    """Every manual page and what must stand in it."""
    made = {MAN / "numamirror.1": main_page()}
    for name in COMMANDS:
        made[MAN / f"numamirror-{name}.1"] = command_page(name)
    return made


def main_page() -> str:
    context = main_context()
    return (
        "\n".join(
            [
                *head("numamirror", cli.help or ""),
                *synopsis("numamirror", ["[OPTIONS]", "COMMAND", "[ARGUMENT]..."]),
                ".Sh DESCRIPTION",
                *by_hand("numamirror", "DESCRIPTION"),
                ".Pp",
                "The options are:",
                *options(cli, context),
                ".Pp",
                "The commands are:",
                *commands(),
                ".Sh ENVIRONMENT",
                *by_hand("numamirror", "ENVIRONMENT"),
                ".Pp",
                *protocol_variables(),
                *other_sections("numamirror", {"DESCRIPTION", "ENVIRONMENT"}),
            ]
        )
        + "\n"
    )


def command_page(name: str) -> str:
    command = cli.get_command(main_context(), name)
    assert command is not None
    context = click.Context(command, info_name=f"numamirror {name}", parent=main_context())
    page = f"numamirror-{name}"
    return (
        "\n".join(
            [
                *head(page, COMMANDS[name]),
                *synopsis(f"numamirror {name}", command.collect_usage_pieces(context)),
                ".Sh DESCRIPTION",
                *paragraphs(command.help or ""),
                *by_hand(page, "DESCRIPTION"),
                ".Pp",
                "The options are:",
                *options(command, context),
                *other_sections(page, {"DESCRIPTION"}),
            ]
        )
        + "\n"
    )


def main_context() -> click.Context:
    return click.Context(cli, info_name="numamirror", **cli.context_settings)


# ---- parts ----


def head(page: str, what: str) -> Iterator[str]:
    yield ".\\\" Made by `make man` from the help of the command: change that, or the page's .inc."
    yield f".Dd {release_date()}"
    yield f".Dt {page.upper()} 1"
    yield f'.Os "NumaMirror {__version__}"'
    yield ".Sh NAME"
    yield f".Nm {page}"
    yield f".Nd {escaped(sentence_inside(what))}"


def sentence_inside(text: str) -> str:
    """As the phrase behind the dash of a NAME section; a name in capitals stays one."""
    phrase = text.strip().rstrip(".")
    return phrase if phrase[:2].isupper() else phrase[:1].lower() + phrase[1:]


def release_date() -> str:
    """Of the newest version in CHANGELOG.md, "November 9, 2026"."""
    found = re.search(r"^## \S+ \((\d{4}-\d\d-\d\d)\)", changelog(), re.MULTILINE)
    if found is None:
        sys.exit("CHANGELOG.md: no line such as '## 1.2.3 (2026-01-31)'")
    day = datetime.date.fromisoformat(found[1])
    return f"{day:%B} {day.day}, {day.year}"


def changelog() -> str:
    return (REPOSITORY / "CHANGELOG.md").read_text()


def synopsis(command: str, pieces: list[str]) -> Iterator[str]:
    yield ".Sh SYNOPSIS"
    yield f".Nm {command}"
    for piece in pieces:
        optional = piece.startswith("[") and piece.endswith("]")
        yield f".Op Ar {escaped(piece[1:-1])}" if optional else f".Ar {escaped(piece)}"


def paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(inspect.cleandoc(text).split("\n\n")):
        if number:
            yield ".Pp"
        yield from sentences(paragraph.replace("\b\n", ""))


def options(command: click.Command, context: click.Context) -> Iterator[str]:
    yield ".Bl -tag -width Ds"
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or not isinstance(parameter, click.Option):
            continue
        spelled, text = record
        yield f".It {option_heading(spelled)}"
        yield from sentences(text)
    yield ".El"


def option_heading(spelled: str) -> str:
    """ "-h, --home N" as mdoc macros."""
    names, _, value = spelled.replace(" / ", ", ").partition(" ")
    while value.startswith("-"):
        more, _, value = value.partition(" ")
        names += f" {more}"
    flags = " , ".join(f"Fl {name[1:]}" for name in names.replace(",", "").split())
    return f"{flags} Ar {escaped(value)}" if value else flags


def commands() -> Iterator[str]:
    yield ".Bl -tag -width Ds"
    for name, text in COMMANDS.items():
        yield f".It Xr numamirror-{name} 1"
        yield from sentences(text)
    yield ".El"


def protocol_variables() -> Iterator[str]:
    """The table of docs/protocol.md, which shim and launcher are written from."""
    rows = re.findall(
        r"^\| `(NUMAMIRROR_\w+)` \| `([^|]*)` \| ([^|]*) \|$",
        (REPOSITORY / "docs" / "protocol.md").read_text(),
        re.MULTILINE,
    )
    yield "The launcher sets these for the program that it starts; a user need not:"
    yield ".Bl -tag -width Ds"
    for name, value, meaning in rows:
        yield f".It Ev {name} Ns = Ns Ar {escaped(value.replace('`', ''))}"
        yield from sentences(meaning.replace("`", ""))
    yield ".El"


# ---- what is written by hand ----


def sections(page: str) -> dict[str, list[str]]:
    """The sections of man/PAGE.inc, by title, without their headings."""
    file = MAN / f"{page}.inc"
    if not file.exists():
        sys.exit(f"{file.relative_to(REPOSITORY)} is missing: it holds the page's examples")
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in file.read_text().splitlines():
        if line.startswith(".Sh "):
            lines = found.setdefault(line.removeprefix(".Sh "), [])
        elif not line.startswith('.\\"'):
            lines.append(line)
    return found


def by_hand(page: str, title: str) -> list[str]:
    return sections(page).get(title, [])


def other_sections(page: str, done: set[str]) -> Iterator[str]:
    for title, lines in sections(page).items():
        if title not in done:
            yield f".Sh {title}"
            yield from lines


def sentences(text: str) -> list[str]:
    """Each on a line of its own, as mdoc(7) has it."""
    return [escaped(each) for each in re.split(r"(?<=[.!?]) ", " ".join(text.split()))]


def escaped(text: str) -> str:
    """Text that roff takes for nothing but text."""
    text = text.replace("\\", "\\e")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def main() -> None:
    check = sys.argv[1:] == ["--check"]
    stale = []
    for path, text in pages().items():
        if path.exists() and path.read_text() == text:
            continue
        stale.append(str(path.relative_to(REPOSITORY)))
        if not check:
            path.write_text(text)
    if check and stale:
        sys.exit(f"not current, run `make man`: {', '.join(stale)}")


if __name__ == "__main__":
    main()
