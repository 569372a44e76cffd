"""What the engine drivers share: their options and the one JSON line that they print.

A driver loads a model into an unmodified engine, generates greedily with a fixed number of
threads and no GPU, and prints {"engine", "text", "tokens", "scores", "second"?}. Everything else
goes to stderr. Two runs of the same driver must print the same line.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

GENERATING_SINCE = "driver: generating since "
SECONDS_TO_WAIT = 300
PROMPT = (
    "A memory controller that is near answers sooner than one that is far. The capital of France is"
)


# What a shell starts in its background ignores Ctrl-C, and so would the engines, which end by it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(frozen=True)
class Options:
    """pause: seconds between the engine's warm-up and the generation that counts; until: files
    that are waited for then."""

    model: Path
    second_model: Path | None
    prompt: str
    n: int
    threads: int
    mmap: bool
    repack: bool
    pause: float
    until: list[Path]
    engine_dir: Path | None
    under: str

    @property
    def models(self) -> list[Path]:
        return [self.model, *([self.second_model] if self.second_model else [])]


@dataclass(frozen=True)
class Generation:
    """tokens: by number, or as texts. scores: a number or digest per token that changes with the
    last bit of the engine's sums."""

    text: str
    tokens: list[int] | list[str]
    scores: list[float] | list[str]


def parse_options(description: str) -> Options:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--second-model", type=Path, help="loaded into the same process")
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--n", type=int, default=16, help="tokens to generate")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--mmap", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--repack", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--until", type=Path, action="append", default=[])
    parser.add_argument("--engine-dir", type=Path, help="where the engine's libraries lie")
    parser.add_argument("--under", default="", help="command line to start llama-server with")
    return Options(**vars(parser.parse_args()))


def pause(options: Options) -> None:
    """Waits as long as, and for what, the options say."""
    time.sleep(options.pause)
    patience = time.monotonic() + SECONDS_TO_WAIT
    while not all(path.exists() for path in options.until) and time.monotonic() < patience:
        time.sleep(0.02)


def pause_after_warm_up(options: Options) -> None:
    """Waits, then says on stderr when the generation that counts begins (CLOCK_MONOTONIC)."""
    pause(options)
    sys.stderr.flush()
    # In one piece: the engine's threads write there too.
    os.write(sys.stderr.fileno(), f"{GENERATING_SINCE}{time.monotonic():.6f}\n".encode())


def print_result(engine: str, generations: list[Generation]) -> None:
    line = {"engine": engine, **asdict(generations[0])}
    if len(generations) > 1:
        line["second"] = asdict(generations[1])
    print(json.dumps(line), flush=True)
