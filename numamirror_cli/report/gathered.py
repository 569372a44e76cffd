"""What `topology --gather` has to say about the archive it wrote."""

from __future__ import annotations

import textwrap

from numamirror_cli.figures import counted
from numamirror_cli.machine.gather import Gathered
from numamirror_cli.quoting import printable, shell_word
from numamirror_cli.report.units import size


def gathered_text(gathered: Gathered, width: int = 80) -> str:
    """Name, size and contents of the archive, and how to look into it. Words are wrapped at
    `width`; lines with the file's name are left whole, to be copied."""
    name = printable(str(gathered.file))
    inside = "\n".join(_wrapped(f"  {line}", width) for line in gathered.inside)
    return (
        f"Wrote {name}: {counted(gathered.files, 'file')}, {size(gathered.archive_bytes)}\n"
        f"Inside:\n{inside}\n"
        f"Left out:\n{_wrapped(f'  {gathered.left_out}', width)}\n"
        "To look into it, and to see this machine again:\n"
        f"  tar -tJf {shell_word(str(gathered.file))}\n"
        f"  numamirror topology --root {shell_word(str(gathered.file))}"
    )


def _wrapped(line: str, width: int) -> str:
    return textwrap.fill(line, width, subsequent_indent="  ")
