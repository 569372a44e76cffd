"""`make bench`: measures, writes bench/results/NAME.json, and prints one table per measurement.

`python -m bench [--quick] [NAME...]`; every figure is of runs that alternated in this one call.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys

from rich.console import Console
from rich.table import Table

from bench import machine
from bench.figures import Figure, Spread, save

# What is measured, in order: the cheap and telling first.
MEASUREMENTS = {
    "calls": "what a seam adds to one call of the engine",
    "growth": "the lookup and the build as models grow",
    "replicas": "how fast a replica is filled",
    "startup": "how long commands take, and what `run` adds before a program's main",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASUREMENTS))
    parser.add_argument("--quick", action="store_true", help="few rounds: to try it, not to quote")
    options = parser.parse_args()
    if unknown := set(options.names) - set(MEASUREMENTS):
        parser.error(f"no measurement {', '.join(sorted(unknown))}")
    facts = machine.describe() | {"quick": options.quick}
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(", ".join(f"{key} {value}" for key, value in facts.items()))
    failed = [
        name
        for name in options.names or MEASUREMENTS
        if not measured(console, name, facts, options.quick)
    ]
    return 1 if failed else 0


def measured(console: Console, name: str, facts: dict[str, object], quick: bool) -> bool:
    """Whether the measurement ran to its end; a failure is shown and the next one goes on."""
    try:
        figures = importlib.import_module(f"bench.{name}").measure(quick)
    except subprocess.CalledProcessError as error:
        console.print(f"{name}: {error}\n{error.stderr or ''}", markup=False, style="red")
        return False
    save(name, facts, figures)
    console.print(table(MEASUREMENTS[name], figures))
    return True


def table(title: str, figures: list[Figure]) -> Table:
    rows = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in ("what", "ours", "against", "other", "result", "goal"):
        rows.add_column(heading, justify="left" if heading in ("what", "against") else "right")
    for figure in figures:
        met = {True: "met", False: "NOT met", None: ""}[figure.met]
        rows.add_row(
            f"{figure.what} [{figure.unit}]".replace("[", "\\["),
            said(figure.ours),
            figure.against,
            said(figure.other),
            said(figure.result),
            f"{figure.goal} {met}".strip(),
        )
    return rows


def said(values: Spread | None) -> str:
    """median (least to greatest)."""
    if values is None:
        return ""
    return f"{values.median:.3g} ({values.min:.3g}-{values.max:.3g})"


if __name__ == "__main__":
    sys.exit(main())
