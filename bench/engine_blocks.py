"""Runs inside the measured process: an engine decodes and prefills, block by block.

    python bench/engine_blocks.py --model FILE --engine-dir DIR --blocks N [--alternate SWITCH]

Prints one JSON line: tokens per second of each block, by "on" and "off", seconds of the first and
of a later token, and what the mirror holds. --alternate needs the shim in LD_PRELOAD, and calls a
function of it, such as numamirror_test_set_redirect, with 1 and 0 from block to block; without it
all blocks are "on", whatever is preloaded. With one thread the seconds are the thread's own: other
programs do not count then.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests/engines")]

from drive_llama_ctypes import Model, open_llama  # noqa: E402

from numamirror_cli.memory.status_page import read_mirror_status  # noqa: E402

TOKEN = 100  # any: which one it is does not change what is computed
BLOCK_SECONDS = 0.1


@dataclass(frozen=True)
class Work:
    """`calls` times a batch of `batch` tokens, from an empty context, `repeat` times over."""

    calls: int
    batch: int
    repeat: int = 1

    @property
    def tokens(self) -> int:
        return self.calls * self.batch * self.repeat


KINDS = {"decode": Work(8, 1), "prefill": Work(1, 64)}
Clock = Callable[[], float]


def seconds(model: Model, work: Work, clock: Clock) -> float:
    llama, tokens = model.llama, (ctypes.c_int32 * work.batch)(*[TOKEN] * work.batch)
    begun = clock()
    for _ in range(work.repeat):
        llama.llama_memory_clear(llama.llama_get_memory(model.context), True)
        for _ in range(work.calls):
            batch = llama.llama_batch_get_one(tokens, work.batch)
            if llama.llama_decode(model.context, batch) != 0:
                sys.exit("llama_decode failed")
    return clock() - begun


def long_enough(model: Model, work: Work, clock: Clock) -> Work:
    """The same work, repeated until a block can be timed. Warms the engine up, too."""
    took = min(seconds(model, work, clock) for _ in range(3))
    return Work(work.calls, work.batch, max(1, math.ceil(BLOCK_SECONDS / took)))


def measure(
    model: Model, blocks: int, switch: Callable[[int], object] | None, clock: Clock
) -> dict[str, dict[str, list[float]]]:
    """Kind -> side -> tokens per second. Pairs go on-off, off-on, so that a drift meets both."""
    rates: dict[str, dict[str, list[float]]] = {kind: {"on": [], "off": []} for kind in KINDS}
    for kind, shortest in KINDS.items():
        work = long_enough(model, shortest, clock)
        for number in range(blocks):
            order = ("on", "off") if number % 2 == 0 else ("off", "on")
            for side in order if switch else ("on",):
                if switch:
                    switch(side == "on")
                rates[kind][side].append(work.tokens / seconds(model, work, clock))
    return rates


# ---- what the mirror holds ----


def mirror() -> dict[str, Any] | None:
    status = read_mirror_status(os.getpid())
    if status is None:
        return None
    return {
        "engine": Path(status.engine).name,
        "reason": status.reason,
        "gemm_bytes": status.gemm_bytes,
        "mirrored_bytes": status.mirrored_bytes,
        "copies": len(status.copies),
        "row_hits": sum(t.row_hits for t in (*status.threads, *status.retired)),
        "mappings": mappings(),
    }


def mappings() -> dict[str, dict[str, int]]:
    """Number, and resident and huge-page bytes, of the process's mappings that are the shim's."""
    found: dict[str, dict[str, int]] = {}
    header, sizes = "", {"Rss": 0, "AnonHugePages": 0}
    for line in Path("/proc/self/smaps").read_text().splitlines():
        key, _, rest = line.partition(":")
        if "-" in key:  # a header: addresses, rights, offset, device, inode, name
            header, sizes = line, dict.fromkeys(sizes, 0)
        elif key in sizes:
            sizes[key] = int(rest.split()[0]) * 1024
        elif key == "VmFlags" and (kind := kind_of(header, set(rest.split()))):
            sums = found.setdefault(kind, {"count": 0, **dict.fromkeys(sizes, 0)})
            sums["count"] += 1
            for name, value in sizes.items():
                sums[name] += value
    return found


def kind_of(header: str, flags: set[str]) -> str | None:
    """An arena is known by its name or, on kernels that keep none, by how it was asked for:
    huge pages, no core dump, no reserve."""
    for mark, kind in (("numamirror-status", "status page"), ("libnumamirror.so", "library")):
        if mark in header:
            return kind
    return "replicas" if "numamirror:replica" in header or flags >= {"hg", "dd", "nr"} else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--engine-dir", type=Path, required=True)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--alternate", metavar="SWITCH")
    options = parser.parse_args()
    switch = getattr(ctypes.CDLL(None), options.alternate) if options.alternate else None
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    model = Model(open_llama(options.engine_dir), options.model, options.threads)
    one = Work(1, 1)
    first = seconds(model, one, time.perf_counter)
    later = statistics.median(seconds(model, one, time.perf_counter) for _ in range(9))
    rates = measure(model, options.blocks, switch, clock)
    line = {"rates": rates, "first_s": first, "later_s": later, "mirror": mirror()}
    print(json.dumps(line), flush=True)
    model.free()


if __name__ == "__main__":
    main()
