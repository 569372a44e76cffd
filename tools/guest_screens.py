"""Commands typed on an emulated machine, and the screens that they leave: for README and docs/."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "tests" / "engines")]

import fetch  # noqa: E402
from guest.vm import Guest, Result, Step, boot  # noqa: E402

MODEL = "gemma-3-270m.gguf"
# Few tokens: emulated threads that wait for each other are slow.
ENGINE = f"python3 answer.py -n 4 -m {MODEL}"


@dataclass(frozen=True)
class Screen:
    """What is typed, in an empty directory with the model and the recipe's answer.py.

    typed: shown after the prompt. script: what really runs where that differs, such as an engine
    that goes on in the background. exits: the status that is right for it. coloured: as on a
    terminal; else as in a pipe, where no bar moves.
    """

    name: str
    typed: str
    script: str = ""
    exits: int = 0
    coloured: bool = False


def started(name: str, command: str) -> Screen:
    """Starts it in the background, its screen into a file, and waits for its answer."""
    script = (
        f"mkfifo input; sleep 1000 > input & echo $! > sleeper; {command} < input > {name}.screen "
        f"2>&1 & echo $! > launcher; until grep -q '^The capital' {name}.screen; do sleep 1; done"
    )
    return Screen(f"{name} starts", command, script, coloured=True)


def ended(name: str, command: str) -> Screen:
    """Ends what was started, and shows its screen."""
    script = (
        "kill $(cat sleeper); rm input; "
        "while kill -0 $(cat launcher) 2> /dev/null; do sleep 0.2; done; "
        f"cat {name}.screen"
    )
    return Screen(name, command, script)


def take(guest: Guest, screens: Sequence[Screen], limit: float = 1200) -> dict[str, Result]:
    """What each left, by name, in the order of `screens`. limit: seconds, boot included."""
    model = fetch.gemma()
    with tempfile.TemporaryDirectory() as work:
        steps = [_step(screen, model) for screen in screens]
        results = boot(guest, steps, Path(work), limit)
    for result in results.values():
        print(f"{guest.name}: {result.name}, {result.seconds:.0f} s", file=sys.stderr)
    return results


def failures(screens: Sequence[Screen], results: Mapping[str, Result]) -> list[str]:
    """Those that ended otherwise than they should, each with all that it left."""
    return [
        f"the screen failed: {results[screen.name]}"
        for screen in screens
        if results[screen.name].code != screen.exits
    ]


def typed(screen: Screen, results: Mapping[str, Result]) -> str:
    """A prompt, the command and its screen, in colours."""
    return f"$ {screen.typed}\n{results[screen.name].stdout.rstrip()}\n"


def plain(coloured: str) -> str:
    """Without colours and blanks at the ends of lines."""
    lines = Text.from_ansi(coloured).plain.splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _step(screen: Screen, model: Path) -> Step:
    # Where the virtual environment lies on this machine is nobody's business.
    script = (
        f"exec 2>&1; ln -sfn {shlex.quote(sys.prefix)} /run/venv; "
        'PATH=/run/venv/bin:"$PATH"; mkdir -p "$TMPDIR/here"; cd "$TMPDIR/here"; '
        f"ln -sf {shlex.quote(str(model))} {MODEL}; "
        f"ln -sf {shlex.quote(str(REPOSITORY))}/docs/recipes/answer.py .; "
        f"{screen.script or screen.typed}"
    )
    environment = {"FORCE_COLOR": "1" if screen.coloured else "", "PYTHON_COLORS": "0"}
    return Step(screen.name, ("sh", "-c", script), limit=400, environment=environment)
