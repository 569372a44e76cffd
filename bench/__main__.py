"""`make bench`: measures, writes bench/results/NAME.json, and prints one table per measurement.

`python -m bench [--quick] [NAME...]`; every figure is of runs that alternated in this one call.
Without --quick each goes into docs/performance.md at once, with all results that there are.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import time

from rich.console import Console
from rich.table import Table

from bench import machine, page
from bench.figures import Figure, save
from bench.measurements import MEASUREMENTS
from bench.text import HEADINGS, cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASUREMENTS))
    parser.add_argument("--quick", action="store_true", help="few rounds: to try it, not to quote")
    parser.add_argument("--page", action="store_true", help="measure nothing, make the page anew")
    options = parser.parse_args()
    if unknown := set(options.names) - set(MEASUREMENTS):
        parser.error(f"no measurement {', '.join(sorted(unknown))}")
    console = Console(width=None if sys.stdout.isatty() else 150)
    names = [] if options.page else options.names or list(MEASUREMENTS)
    failed = [name for name in names if not measured(console, name, options.quick)]
    if options.page:
        page.write()
    return 1 if failed else 0


def measured(console: Console, name: str, quick: bool) -> bool:
    """Whether the measurement ran to its end; a failure is shown, leaves the results of the run
    before in place, and the next one goes on."""
    module = importlib.import_module(f"bench.{name}")
    begun, others = time.monotonic(), machine.OtherPrograms()
    facts = machine.describe()
    try:
        facts |= module.describe() if hasattr(module, "describe") else {}
        figures = module.measure(quick)
    except (Exception, SystemExit) as error:  # whatever it is, hours may pass before one looks
        console.print(f"{name}: {told(error)}", markup=False, style="red")
        return False
    facts |= {"other_programs_cpus": others.cpus(), "seconds": round(time.monotonic() - begun)}
    if not quick:
        save(name, facts, figures)
        page.write()
    console.print(", ".join(f"{key} {value}" for key, value in facts.items()), highlight=False)
    console.print(table(MEASUREMENTS[name], figures))
    return True


def told(error: BaseException) -> str:
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
    return f"{type(error).__name__}: {error}\n{said or ''}"


def table(title: str, figures: list[Figure]) -> Table:
    rows = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in HEADINGS:
        rows.add_column(heading, justify="left" if heading in ("what", "against") else "right")
    for figure in figures:
        rows.add_row(*(cell.replace("[", "\\[") for cell in cells(figure)))
    return rows


if __name__ == "__main__":
    sys.exit(main())
