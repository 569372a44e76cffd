"""What programs do with an engine in the course of their lives.

    lives.py SCENARIO DRIVER-OPTION...

Prints one JSON object; what it generates must be the same in every run.
"""

from __future__ import annotations

import _ctypes
import ctypes
import json
import os
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "engines"))

from drive_llama_ctypes import Model, open_llama
from driver import Options, parse_options

ROUNDS = 50
# The allocators of libc and the loader have grown to what they need.
SETTLED = 10


def tokens(model: Model, options: Options) -> list[int]:
    return model.generate(options.prompt, options.n).tokens


def opened(options: Options) -> ctypes.CDLL:
    assert options.engine_dir is not None
    return open_llama(options.engine_dir)


def two_threads(options: Options) -> Any:
    """Each thread loads a model of its own, at the same time, and generates."""
    llama = opened(options)
    together = threading.Barrier(2)
    found: dict[str, list[int]] = {}

    def live(path: Path) -> None:
        together.wait()
        model = Model(llama, path, options.threads)
        together.wait()
        found[path.name] = tokens(model, options)
        together.wait()
        model.free()

    in_threads([lambda path=path: live(path) for path in options.models])
    return found


def load_and_free(options: Options) -> Any:
    """Fifty times over; what the process holds is noted once settled, and at the end."""
    llama = opened(options)
    texts, held = set(), {}
    for number in range(1, ROUNDS + 1):
        model = Model(llama, options.model, options.threads)
        texts.add(tuple(tokens(model, options)))
        model.free()
        if number in (SETTLED, ROUNDS):
            held[number] = holdings()
    return {"texts": sorted(texts), "settled": held[SETTLED], "end": held[ROUNDS]}


def holdings() -> dict[str, int]:
    status = Path("/proc/self/status").read_text()
    resident = re.search(r"VmRSS:\s*(\d+) kB", status)
    return {
        "resident_kib": int(resident[1]) if resident else 0,
        "mappings": len(Path("/proc/self/maps").read_text().splitlines()),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
    }


def free_beside(options: Options) -> Any:
    """One model generates over and over while others are loaded, used and freed."""
    llama = opened(options)
    steady, done = Model(llama, options.model, options.threads), threading.Event()
    texts: set[tuple[int, ...]] = set()

    def generate() -> None:
        while not done.is_set():
            llama.llama_memory_clear(llama.llama_get_memory(steady.context), True)
            texts.add(tuple(tokens(steady, options)))

    def come_and_go() -> None:
        for _ in range(10):
            model = Model(llama, options.models[-1], 1)
            model.warm_up()
            model.free()
        done.set()

    in_threads([generate, come_and_go])
    return sorted(texts)


def in_threads(work: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=part) for part in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def fork(options: Options) -> Any:
    """The child computes with what the parent has loaded, then the parent goes on."""
    model = Model(opened(options), options.model, options.threads)
    first = tokens(model, options)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, json.dumps(tokens(model, options)).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        of_child = json.load(answer)
    status = os.waitpid(child, 0)[1]
    return {"first": first, "child": of_child, "status": status, "then": tokens(model, options)}


def close_and_reopen(options: Options) -> Any:
    """The engine is unloaded by dlclose and loaded again."""
    found = []
    for _ in range(3):
        llama = opened(options)
        model = Model(llama, options.model, options.threads)
        found.append(tokens(model, options))
        model.free()
        _ctypes.dlclose(llama._handle)
    return found


def deep_bind(options: Options) -> Any:
    """The engine's libraries look for functions in themselves before the rest of the process."""
    assert options.engine_dir is not None
    # A library keeps the scope with which it was opened first.
    first = ctypes.CDLL(str(next(options.engine_dir.glob("libllama.*"))), os.RTLD_DEEPBIND)
    llama = opened(options)
    assert first._handle == llama._handle
    return tokens(Model(llama, options.model, options.threads), options)


def stay(options: Options) -> Any:
    """Says who it is and generates, again for each line on stdin, and ends with stdin."""
    model = Model(opened(options), options.model, options.threads)
    print(os.getpid(), flush=True)
    text = tokens(model, options)
    print(json.dumps(text), flush=True)
    for _ in sys.stdin:
        model.llama.llama_memory_clear(model.llama.llama_get_memory(model.context), True)
        text = tokens(model, options)
        print(json.dumps(text), flush=True)
    return text


SCENARIOS: dict[str, Callable[[Options], Any]] = {
    "two-threads": two_threads,
    "load-and-free": load_and_free,
    "free-beside": free_beside,
    "fork": fork,
    "close-and-reopen": close_and_reopen,
    "deep-bind": deep_bind,
    "stay": stay,
}

if __name__ == "__main__":
    scenario = SCENARIOS[sys.argv.pop(1)]
    print(json.dumps(scenario(parse_options(__doc__ or "")), sort_keys=True), flush=True)
