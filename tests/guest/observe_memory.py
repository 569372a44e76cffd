"""Runs inside the guest: our commands on a model file and on processes, and the kernel's view.

    observe_memory.py MODEL

Prints one JSON document. Where pages lie is asked of the kernel by code of this directory alone.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import mmap
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from kernel_view import PAGE, pages_by_node

NUMAMIRROR = [sys.executable, "-m", "numamirror_cli"]
HELD_BYTES = 32 << 20
MOST_LOOKS = 10
# Maps a file, or takes anonymous memory, reads it all, and stays.
READER = """
import mmap, sys, time
with open(sys.argv[1], "rb") as file:
    model = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
sum(model[::4096])
print("up", flush=True)
sys.stdin.read()
"""
GROWER = """
import sys, time
kept = []
print("up", flush=True)
for _ in range(40):
    kept.append(b"x" * (2 << 20))
    time.sleep(0.5)
sys.stdin.read()
"""


def main(model: Path) -> None:
    seen: dict[str, Any] = {}
    with ThreadPoolExecutor() as beside:
        settled = beside.submit(settle)
        seen |= look_at_cache(model)
        seen["watched"] = watch_a_move()
        seen["settled"] = settled.result()
    print(json.dumps(seen))


def look_at_cache(model: Path) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    seen["evicted"] = cache(model, "--evict")
    seen["evicted, kernel"] = cached_pages(model)
    for where in ("1", "0", "interleave"):
        seen[f"warm {where}"] = cache(model, "--warm", where)
        seen[f"warm {where}, kernel"] = cached_pages(model)
    with running(READER, str(model)) as pid:
        seen["evict while mapped"] = cache(model, "--evict")
        seen["reader"] = pid
    # Yesterday's cache against today's policy: the case that people ask about most.
    cache(model, "--warm", "1")
    with running(READER, str(model), under=("numactl", "--cpunodebind=0", "--membind=0")) as pid:
        seen["remote"] = inspect(pid)
    return seen


def cache(model: Path, *options: str) -> dict[str, Any]:
    done = subprocess.run(
        [*NUMAMIRROR, "cache", str(model), "--json", *options], capture_output=True, text=True
    )
    document: dict[str, Any] = json.loads(done.stdout or "{}")
    return document | {"stderr": done.stderr, "exit": done.returncode}


def inspect(pid: int, *options: str) -> dict[str, Any]:
    done = subprocess.run(
        [*NUMAMIRROR, "inspect", str(pid), "--json", *options], capture_output=True, text=True
    )
    document: dict[str, Any] = json.loads(done.stdout or "{}")
    return document | {"stderr": done.stderr, "exit": done.returncode}


def cached_pages(model: Path) -> dict[str, int]:
    """Pages per node of what is cached, found by mapping all of it that mincore(2) reports."""
    with model.open("rb") as file:
        view = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=3)
        start = address_of(view)
        resident = in_memory(start, len(view))
        for page in resident:
            view[page * PAGE]
        return pages_by_node(os.getpid(), [(start + page * PAGE, PAGE) for page in resident])


def address_of(view: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def in_memory(start: int, length: int) -> list[int]:
    pages = (ctypes.c_ubyte * (-(-length // PAGE)))()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mincore(ctypes.c_void_p(start), ctypes.c_size_t(length), pages):
        raise OSError(ctypes.get_errno(), "mincore")
    return [number for number, byte in enumerate(pages) if byte & 1]


@contextmanager
def running(code: str, *arguments: str, under: tuple[str, ...] = ()) -> Iterator[int]:
    """The pid of a Python process that has printed its first line."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    child = subprocess.Popen([*under, sys.executable, "-c", code, *arguments], **pipes)
    try:
        child.stdout.readline()
        yield child.pid
    finally:
        child.stdin.close()
        child.wait()


def settle() -> dict[str, Any]:
    with running(GROWER) as pid:
        return inspect(pid, "--until-settled", "--interval", "0.5", "--quiet-for", "2")


def watch_a_move() -> dict[str, Any]:
    """A process whose pages are moved from node 0 to node 1 while it is watched."""
    hold = f"m = b'x' * {HELD_BYTES}\nprint('up', flush=True)\nimport sys; sys.stdin.read()"
    with running(hold, under=("numactl", "--membind=0")) as pid:
        command = [*NUMAMIRROR, "inspect", str(pid), "--json", "--watch", "--interval", "0.2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watcher:
            before = private(json.loads(watcher.stdout.readline()))
            subprocess.run(["migratepages", str(pid), "0", "1"], check=True)
            # One look may come in the middle of the move.
            for line in itertools.islice(watcher.stdout, MOST_LOOKS):
                after = private(json.loads(line))
                if after["1"] > HELD_BYTES:
                    break
            watcher.terminate()
        return {"before": before, "after": after, "kernel": numa_maps_sum(pid)}


def private(document: dict[str, Any]) -> dict[str, int]:
    return {node: rows["private"] for node, rows in document["placement_bytes"].items()}


def numa_maps_sum(pid: int) -> dict[str, int]:
    """Anonymous 4-KiB pages per node, straight from the kernel's text."""
    counts: dict[str, int] = {}
    for line in Path(f"/proc/{pid}/numa_maps").read_text().splitlines():
        if " anon=" in line and " heap " not in line and " stack " not in line:
            for node, pages in re.findall(r" N(\d+)=(\d+)", line):
                counts[node] = counts.get(node, 0) + int(pages)
    return counts


if __name__ == "__main__":
    main(Path(sys.argv[1]))
