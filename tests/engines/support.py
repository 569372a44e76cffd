"""The table in docs/engines.md, made from what the engine tests found.

conftest.py keeps each outcome in the tests' cache directory; `python tests/engines/support.py`
writes the table from there. An engine that was not run keeps no row of an earlier day.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from paths import cache_dir

PAGE = Path(__file__).resolve().parents[2] / "docs" / "engines.md"
BEGIN, END = "<!-- table: made by `make engines-table` -->\n", "<!-- end of table -->\n"

# name in the tests -> what it is, and its shape.
ENGINES = {
    "xllamacpp": ("llama.cpp in xllamacpp 2026.10 (ggml 0.26.0)", "one library in Python"),
    "xllamacpp-2026.6": ("llama.cpp in xllamacpp 2026.6 (ggml 0.13.1)", "one library in Python"),
    "xllamacpp-0.2": ("llama.cpp in xllamacpp 0.2.14 (ggml 0.9.7)", "one library in Python"),
    "node-llama-cpp": (
        "llama.cpp in node-llama-cpp 3.21 (ggml 0.23.0)",
        "CPU variants loaded at run time, as in official releases and ollama",
    ),
    "llama-server": (
        "llama-server b10434 (ggml 0.20.0)",
        "program and shared libraries, OpenMP, AMX",
    ),
    "llama-server over RPC": ("its ggml-rpc-server, two workers", "the workers are mirrored"),
    "llama-server with Vulkan": ("the same with experts sent to a GPU", "uploads"),
    "ik_llama.cpp": ("ik_llama.cpp in ik-llama-cpp-python 0.1.5", "own kernels and layout"),
    "whisper.cpp": (
        "whisper.cpp 1.8.5 in pywhispercpp 1.5.1 (ggml 0.13.1)",
        "shared libraries, several graphs",
    ),
    "two engines": ("llama.cpp and ik_llama.cpp in one process", "functions of the same names"),
    "static": ("llama.cpp linked statically (llama-completion)", "functions inside the program"),
}

# Where a test's name says what it shows. The others show something else.
SHOWN = {
    "output": ("identical", "text_does_not_depend", "call_their_own_functions", "own_text"),
    "coverage": ("is_mirrored", "mirror_all_weights", "call_their_own_functions", "uploaded_from"),
    "poison": ("still_read_the_primary", "reads_its_primary", "come_from_a_replica"),
}
WORDS = {"output": "identical", "coverage": "all", "poison": "clean"}

Results = dict[str, dict[str, list[bool]]]


def results_file() -> Path:
    return cache_dir() / "support.json"


def note(results: Results, engine: str, test: str, passed: bool) -> None:
    """Books one outcome under each thing that the test shows."""
    for column, parts in SHOWN.items():
        if any(part in test for part in parts):
            results.setdefault(engine, {}).setdefault(column, []).append(passed)


def row(engine: str, found: Mapping[str, list[bool]]) -> str:
    what, shape = ENGINES[engine]
    cells = [cell(column, found.get(column, [])) for column in SHOWN]
    return f"| {what} | {shape} | {' | '.join(cells)} |\n"


def cell(column: str, outcomes: list[bool]) -> str:
    if not outcomes:
        return ""
    passed = sum(outcomes)
    return (
        f"{WORDS[column]} ({passed})"
        if passed == len(outcomes)
        else f"**{passed}** of {len(outcomes)}"
    )


def table(results: Mapping[str, Mapping[str, list[bool]]]) -> str:
    head = "| engine | shape | output | GEMM weights mirrored | poison |\n|---|---|---|---|---|\n"
    return head + "".join(row(name, results[name]) for name in ENGINES if name in results)


def with_table(page: str, text: str) -> str:
    before, rest = page.split(BEGIN)
    return before + BEGIN + text + END + rest.split(END)[1]


def main() -> None:
    if not results_file().exists():
        sys.exit("no results yet: run `make test-engines` first")
    results = json.loads(results_file().read_text())
    PAGE.write_text(with_table(PAGE.read_text(), table(results)))


if __name__ == "__main__":
    main()
