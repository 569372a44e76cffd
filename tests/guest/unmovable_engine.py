"""Runs inside the guest, under the launcher: an engine whose weights something keeps in place.

    unmovable_engine.py MODEL ENGINE-DIR HOW

HOW: "registered": its anonymous weights are io_uring's registered buffers, which the kernel pins
for as long as they are (FOLL_LONGTERM), as it does for a GPU's DMA. "in flight": a part of the
model's page cache is on its way through a pipe. "shared": another process maps the model's file.
"free": nothing does. Prints {"before", "after", "cached", "texts"}: pages of the weights per node
before the first graph and after the second, pages of the file in the page cache at the end, and
what was generated from the primary, from the copies, and from the primary again.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "engines"))

from drive_llama_ctypes import Model, open_llama
from in_flight import splice_into_pipe
from kernel_view import mappings, pages_by_node
from observe_memory import READER, cached_pages

SETUP, REGISTER, REGISTER_BUFFERS = 425, 427, 0  # io_uring(7)
LEAST_BYTES = 256 << 10
# Of the model's pages, enough for the primary not to be at home when the others have moved.
PART_IN_FLIGHT = 4

Ranges = list[tuple[int, int]]


def main(path: Path, engine_dir: Path, how: str) -> None:
    llama = open_llama(engine_dir)
    already = set(anonymous())
    model = Model(llama, path, threads=2)
    weights = file_ranges(path)
    if how == "registered":
        weights = [found for found in anonymous() if found not in already]
    held = HOLD[how](path, weights)
    seen: dict[str, Any] = {"before": pages_by_node(0, weights)}
    texts = [generate(model), generate(model)]
    seen["after"], seen["cached"] = pages_by_node(0, weights), cached_pages(path)
    redirect(False)
    print(json.dumps({**seen, "texts": [*texts, generate(model)]}), flush=True)
    del held


def generate(model: Model) -> list[str] | list[float]:
    model.llama.llama_memory_clear(model.llama.llama_get_memory(model.context), True)
    return model.generate("The capital of France is", 2).scores


def redirect(on: bool) -> None:
    program = ctypes.CDLL(None)
    if hasattr(program, "numamirror_test_set_redirect"):
        program.numamirror_test_set_redirect(int(on))


def file_ranges(path: Path) -> Ranges:
    """Where this process maps the file."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    bounds = [line.split()[0].split("-") for line in lines if line.endswith(str(path))]
    return [(int(start, 16), int(end, 16) - int(start, 16)) for start, end in bounds]


def anonymous() -> Ranges:
    """Writable mappings without a file that are large enough for weights."""
    return [
        (start, end - start)
        for start, end, inode, flags in mappings(os.getpid())
        if inode == 0 and "wr" in flags and end - start >= LEAST_BYTES
    ]


class Vector(ctypes.Structure):
    """struct iovec."""

    _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


def register(_path: Path, ranges: Ranges) -> int:
    """Registers the memory with io_uring; it stays pinned while the descriptor is open."""
    libc = ctypes.CDLL(None, use_errno=True)
    parameters = ctypes.create_string_buffer(120)  # struct io_uring_params, all zero
    ring = libc.syscall(SETUP, 1, parameters)
    vectors = (Vector * len(ranges))(*ranges)
    if ring < 0 or libc.syscall(REGISTER, ring, REGISTER_BUFFERS, vectors, len(ranges)) != 0:
        raise OSError(ctypes.get_errno(), "io_uring_register")
    return int(ring)


def put_in_flight(path: Path, _ranges: Ranges) -> list[int]:
    size = path.stat().st_size
    return splice_into_pipe(path, size // 2, size // PART_IN_FLIGHT)


def share(path: Path, _ranges: Ranges) -> Any:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    without_us = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    command = [sys.executable, "-c", READER, str(path)]
    reader = subprocess.Popen(command, **pipes, env=without_us)
    reader.stdout.readline()
    return reader


HOLD: dict[str, Callable[[Path, Ranges], Any]] = {
    "registered": register,
    "in flight": put_in_flight,
    "shared": share,
    "free": lambda _path, _ranges: None,
}

if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
