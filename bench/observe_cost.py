"""What observing costs an engine: a plain process and one under `run --observe`, block by block.

Both load the same model and decode in turns, one computing while the other waits. With one thread
the seconds are the thread's own, so that other programs do not count; asking the kernel for pages
is done by that thread too. Blocks are longer than the second between two samples. Several pairs of
processes, since where the pages of one lie makes it faster or slower than another for good.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests/engines")]

import fetch  # noqa: E402
from drive_llama_ctypes import Model, open_llama  # noqa: E402

from bench import programs  # noqa: E402
from bench.figures import RATIO, Figure, alternate, compared  # noqa: E402

OBSERVED = ("run", "--observe", "--min-size", "1", "--report", "none", "--")
PAIRS, BLOCKS, BLOCK_SECONDS = 3, 8, 1.5
TOKEN = 100  # any: which one it is does not change what is computed


def measure(quick: bool) -> list[Figure]:
    """Ratio of the CPU time of a decoded token, observed by plain."""
    plain: list[float] = []
    observed: list[float] = []
    for _ in range(1 if quick else PAIRS):
        with ExitStack() as stack:
            ways = {
                "plain": stack.enter_context(Engine(())),
                "observed": stack.enter_context(Engine(OBSERVED)),
            }
            rates = alternate(2 if quick else BLOCKS, {n: e.block for n, e in ways.items()})
        plain += rates["plain"]
        observed += rates["observed"]
    what = "CPU time of a decoded token, observed"
    return [compared(what, "ms", observed, "not observed", plain, RATIO, "<= 1.01")]


class Engine:
    """A process with a loaded model. options: of numamirror, none to start it without."""

    def __init__(self, options: tuple[str, ...]) -> None:
        before = [sys.executable, "-m", "numamirror_cli", *options] if options else []
        inside = [sys.executable, __file__, str(fetch.gemma()), str(fetch.node_llama_cpp())]
        self._child = subprocess.Popen(
            [*before, *inside],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=REPOSITORY,
            env=os.environ | {"NUMAMIRROR_SHIM": str(programs.shim())},
        )

    def __enter__(self) -> Engine:
        self.block()  # loads, warms up, and is not counted
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate()

    def block(self) -> float:
        """Milliseconds per token, the thread's own."""
        assert self._child.stdin and self._child.stdout
        print("go", file=self._child.stdin, flush=True)
        return float(self._child.stdout.readline())


# ---- inside the measured process ----


def decode(model: Model, tokens: int) -> float:
    """Seconds of CPU per token."""
    llama, token = model.llama, (ctypes.c_int32 * 1)(TOKEN)
    llama.llama_memory_clear(llama.llama_get_memory(model.context), True)
    begun = time.thread_time()
    for _ in range(tokens):
        if llama.llama_decode(model.context, llama.llama_batch_get_one(token, 1)) != 0:
            sys.exit("llama_decode failed")
    return (time.thread_time() - begun) / tokens


def serve(model_file: str, engine_dir: str) -> None:
    model = Model(open_llama(Path(engine_dir)), Path(model_file), 1)
    tokens = min(400, round(BLOCK_SECONDS / min(decode(model, 8) for _ in range(3))))
    for _ in sys.stdin:
        print(decode(model, tokens) * 1000, flush=True)
    model.free()


if __name__ == "__main__":
    serve(*sys.argv[1:])
