"""Which programs a start script names, in the ways in which people write them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from numamirror_cli.engine.shell_words import named_programs

Script = Callable[..., Path]


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    path = tmp_path / "bin/engine"
    path.parent.mkdir()
    path.touch(0o755)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "exec {directory}/bin/engine --port 1",
        'HERE="$(cd "$(dirname "$0")" && pwd)"\n"$HERE/bin/engine" "$@"',
        'HERE=$(dirname "$(readlink -f "$0")")\nexec "${HERE}/bin/engine" \\\n  --model m',
        "exec ${0%/*}/bin/engine",
        'DIR="$( cd "$( dirname "${BASH_SOURCE[0]}" )" >/dev/null 2>&1 && pwd )"\n$DIR/bin/engine',
        "B=`dirname $0`\nexport X=$B/bin\n$X/engine &",
        "exec bin/engine",
        "if true; then\n  numactl --membind=1 {directory}/bin/engine 'a prompt\nof two lines'\nfi",
    ],
)
def test_the_engine_is_found_however_the_script_spells_it(
    script: Script, engine: Path, text: str
) -> None:
    start = script("start", "#!/bin/sh\n" + text.replace("{directory}", str(engine.parent.parent)))
    assert engine in [path.resolve() for path in named_programs(start, os.environ)]


def test_a_plain_name_is_searched_along_path(script: Script, engine: Path) -> None:
    start = script("start", "exec engine -m model")
    assert named_programs(start, {"PATH": str(engine.parent)}) == (engine,)


def test_a_comment_names_nothing(script: Script, engine: Path) -> None:
    assert named_programs(script("start", f"# {engine}\n"), {"PATH": ""}) == ()


def test_a_script_that_names_itself_is_not_its_own_program(script: Script, tmp_path: Path) -> None:
    assert named_programs(script("start", f"exec {tmp_path}/start"), {"PATH": ""}) == ()


@pytest.mark.parametrize("text", ["'unbalanced", "\0\x01\xff", "$((", "${", "$(dirname $0", ""])
def test_a_strange_script_names_nothing(script: Script, text: str) -> None:
    assert named_programs(script("start", text), {"PATH": ""}) == ()


def test_an_unreadable_script_names_nothing(tmp_path: Path) -> None:
    assert named_programs(tmp_path / "gone", {"PATH": ""}) == ()
