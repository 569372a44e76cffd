"""What the engine's own arguments tell before it starts: its model's size and its threads.

A look at file sizes, not into the model: that is `plan`'s, and takes too long here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.memory.model_files import find_model
from numamirror_cli.plan.engine_args import parse_engine_args


@dataclass(frozen=True)
class EngineWords:
    """model_bytes: of all files of the model named with -m, None without one; what is kept on GPUs
    is in it. threads: None when not given. uses_gpus: -ngl is above 0."""

    model_bytes: int | None = None
    threads: int | None = None
    uses_gpus: bool = False


def read_engine_words(arguments: Sequence[str]) -> EngineWords:
    """Read the arguments of a program that may be an engine. Threads count only beside a model: in
    other programs -t may be anything."""
    try:
        said = parse_engine_args(["engine", *arguments])
    except NumaMirrorError:
        # The engine will say so itself, if it is one.
        return EngineWords()
    size = find_model(Path(said.model)).bytes if said.model else 0
    if not size:
        return EngineWords()
    return EngineWords(size, said.threads, bool(said.gpu_layers))
