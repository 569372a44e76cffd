"""`make session`: what a person sees on two nodes, taken on a two-node kernel in QEMU.

Writes docs/session.txt and docs/session.svg and puts the text into README.md, between its
markers. Nothing in them is written by hand.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "tests" / "engines")]

import fetch  # noqa: E402
from guest.catalogue import TWO_NODES  # noqa: E402
from guest.vm import Result, Step, boot  # noqa: E402

BEGIN, END = "<!-- session: made by `make session` -->", "<!-- end of session -->"
MODEL = "gemma-3-270m.gguf"
PICTURE_COLUMNS = 96
# Gemma 3 270M is so small that a fifth of it lies in matrices below the default of 1 MiB.
COMMANDS = {
    "topology": "numamirror topology",
    "run": f"numamirror run --min-size 0 -- python3 answer.py -m {MODEL}",
}


def step(name: str, model: Path) -> Step:
    programs = Path(sys.executable).parent
    script = (
        f'exec 2>&1; PATH="{programs}:$PATH"; cd "$TMPDIR"; ln -sf "{model}" {MODEL}; '
        f'ln -sf "{REPOSITORY}/docs/recipes/answer.py" .; {COMMANDS[name]}'
    )
    # Colours for the picture; the text goes without.
    environment = {"FORCE_COLOR": "1", "PYTHON_COLORS": "0"}
    return Step(name, ("sh", "-c", script), limit=400, environment=environment)


def transcript(results: dict[str, Result]) -> str:
    parts = []
    for name, command in COMMANDS.items():
        result = results[name]
        if result.code != 0:
            raise SystemExit(f"the session failed: {result}")
        parts.append(f"$ {command}\n{result.stdout.rstrip()}\n")
    # Where the virtual environment lies is nobody's business.
    return "\n".join(parts).replace(sys.prefix, "~/venv")


def picture(coloured: str) -> str:
    """The session as an SVG that fetches no fonts, as rich's own would, and keeps its columns in
    viewers that drop leading spaces."""
    console = Console(record=True, width=PICTURE_COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(coloured))
    svg = console.export_svg(title="two NUMA nodes, emulated by QEMU", unique_id="session")
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def put_into_readme(text: str) -> None:
    readme = REPOSITORY / "README.md"
    before, _, rest = readme.read_text().partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"README.md: no {BEGIN} ... {END}")
    readme.write_text(f"{before}{BEGIN}\n```text\n{text}```\n{END}{after}")


def main() -> None:
    model = fetch.gemma()
    with tempfile.TemporaryDirectory() as work:
        steps = [step(name, model) for name in COMMANDS]
        coloured = transcript(boot(TWO_NODES, steps, Path(work), limit=600))
    text = "\n".join(line.rstrip() for line in Text.from_ansi(coloured).plain.splitlines()) + "\n"
    (REPOSITORY / "docs" / "session.txt").write_text(text)
    (REPOSITORY / "docs" / "session.svg").write_text(picture(coloured))
    put_into_readme(text)
    print(text, end="")


if __name__ == "__main__":
    main()
