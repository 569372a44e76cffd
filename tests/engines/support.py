"""The tables of supported engines, made from what the engine tests found.

conftest.py keeps each outcome in the tests' cache directory; `python tests/engines/support.py`
writes the tables from there into the README and docs/engines.md, `--forget` begins anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Any

from paths import cache_dir

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- table: made by `make engines-table` -->\n", "<!-- end of table -->\n"


@dataclass(frozen=True)
class Row:
    """what: what people call it; shape: how ggml reaches them in it; built: from source, which
    only `make test-engines-full` does."""

    what: str
    shape: str
    built: bool = False

    @property
    def title(self) -> str:
        return f"{self.what} \\*" if self.built else self.what


# By their names in the tests. Versions are read from the engine, by `numamirror check`.
ENGINES = {
    "llama-server": Row("llama-server", "program and shared libraries, OpenMP, AMX"),
    "node-llama-cpp": Row(
        "node-llama-cpp", "CPU variants loaded at run time, as in official releases and ollama"
    ),
    "xllamacpp": Row("xllamacpp", "one library in Python"),
    "xllamacpp-2026.6": Row("xllamacpp, older", "one library in Python"),
    "xllamacpp-0.2": Row("xllamacpp, older still", "one library in Python"),
    "llama-cpp-python": Row("llama-cpp-python", "shared libraries, called by ctypes", built=True),
    "llama-cpp-python's server": Row(
        "python -m llama_cpp.server", "the same, asked over HTTP", built=True
    ),
    "static": Row(
        "llama-server, static", "all of it inside the program, symbol table kept", built=True
    ),
    "static, stripped": Row(
        "llama-server, static, stripped", "the same, without symbol table", built=True
    ),
    "llama-server over RPC": Row("ggml-rpc-server", "two workers of one llama-server"),
    "static workers": Row("ggml-rpc-server, static", "all of it inside the worker", built=True),
    "llama-server with Vulkan": Row(
        "llama-server, Vulkan", "uploads of experts to a software device"
    ),
    "ik_llama.cpp": Row("ik-llama-cpp-python", "ik_llama.cpp: own kernels and layout"),
    "whisper.cpp": Row("pywhispercpp", "whisper.cpp: several graphs"),
    "two engines": Row("xllamacpp and ik_llama.cpp", "two engines in one process"),
}

# Where a test's name says what it shows. The others show something else.
SHOWN = {
    "output": ("identical", "text_does_not_depend", "call_their_own_functions", "own_text"),
    "mirrored": ("is_mirrored", "mirror_all_weights", "call_their_own_functions", "uploaded_from"),
    "poison": ("still_read_the_primary", "reads_its_primary", "come_from_a_replica"),
}
NOTHING = "\N{EN DASH}"
WORDS = {"output": "identical", "mirrored": "all", "poison": "clean"}


@dataclass(frozen=True)
class Found:
    """Of one engine. outcomes: whether each test passed, by what it shows and its own name."""

    version: str
    outcomes: Mapping[str, Mapping[str, bool]]


Results = dict[str, dict[str, Any]]


def results_file() -> Path:
    return cache_dir() / "outcomes.json"


def note(results: Results, engine: str, test: str, passed: bool) -> None:
    """Books one outcome under each thing that the test shows."""
    for column, parts in SHOWN.items():
        if any(part in test for part in parts):
            results.setdefault(engine, {}).setdefault(column, {})[test] = passed


def note_version(results: Results, engine: str, command: list[str]) -> None:
    """Name and version that `check` reads off the files of the command that starts the engine."""
    if engine not in results or "version" in results[engine]:
        return
    check = [sys.executable, "-m", "numamirror_cli", "check", "--json", "--", *command]
    done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)
    engines = json.loads(done.stdout)["engines"]
    told = ((found["name"], found["version"]) for found in engines if found["version"])
    results[engine]["version"] = "; ".join(starmap(name_and_version, told))


def name_and_version(name: str, version: str) -> str:
    if version.startswith(f"{name} "):
        return version
    return f"{name} {version}" if version[0].isdigit() else f"{name}, {version}"


def keep(results: Results) -> None:
    """Adds this session's outcomes to those of earlier ones."""
    path = results_file()
    kept: Results = json.loads(path.read_text()) if path.exists() else {}
    for engine, found in results.items():
        before = kept.setdefault(engine, {})
        for key, value in found.items():
            before[key] = {**before.get(key, {}), **value} if isinstance(value, dict) else value
    whole = path.with_suffix(f".partial{os.getpid()}")  # no other session reads half of it
    whole.write_text(json.dumps(kept))
    whole.rename(path)


def read_results() -> dict[str, Found]:
    if not results_file().exists():
        sys.exit("no results yet: run `make test-engines-full` first")
    kept: Results = json.loads(results_file().read_text())
    return {
        engine: Found(found.get("version") or NOTHING, {c: found.get(c, {}) for c in SHOWN})
        for engine, found in kept.items()
        if "output" in found  # else only a few of its tests were run
    }


def cell(column: str, outcomes: Mapping[str, bool]) -> str:
    if not outcomes:
        return NOTHING
    passed = sum(outcomes.values())
    if passed < len(outcomes):
        return f"**{passed}** of {len(outcomes)}"
    return f"{WORDS[column]} ({passed})"


def summary(found: Found) -> str:
    """What happens to the engine under `numamirror run`."""
    if not all(all(outcomes.values()) for outcomes in found.outcomes.values()):
        return "**fails a test**"
    if not found.outcomes["mirrored"]:
        return "policy only"
    return "full" if found.outcomes["poison"] else "mirrored"


Cells = Callable[[Row, Found], list[str]]

# The table of each page: its head, and the cells of one engine.
PAGES: dict[Path, tuple[list[str], Cells]] = {
    ROOT / "README.md": (
        ["engine", "shape", "version", "mirror"],
        lambda row, found: [row.title, row.shape, found.version, summary(found)],
    ),
    ROOT / "docs" / "engines.md": (
        ["engine", "version", "output", "GEMM weights mirrored", "poison"],
        lambda row, found: [
            row.title,
            found.version,
            *(cell(column, found.outcomes[column]) for column in SHOWN),
        ],
    ),
}


def table(head: list[str], cells: Cells, results: Mapping[str, Found]) -> str:
    """In the order of ENGINES; an engine that was not run has no row."""
    rows = [head, ["---"] * len(head)]
    rows += [cells(row, results[name]) for name, row in ENGINES.items() if name in results]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def with_table(page: str, text: str) -> str:
    before, rest = page.split(BEGIN)
    return before + BEGIN + text + END + rest.split(END)[1]


def main() -> None:
    if sys.argv[1:] == ["--forget"]:
        results_file().unlink(missing_ok=True)
        return
    results = read_results()
    for page, (head, cells) in PAGES.items():
        page.write_text(with_table(page.read_text(), table(head, cells, results)))
    if missing := [row.what for name, row in ENGINES.items() if name not in results]:
        sys.exit(f"not run here, and so without a row: {', '.join(missing)}")


if __name__ == "__main__":
    main()
