"""Runs inside the guest: xllamacpp generates, then stays, so that the kernel can be asked.

    hold_engine.py MODEL THREADS

Prints {"text", "tokens", "scores"}, then {"pid", "extents"}: the mirrored or interleaved extents
of the primary as the shim has them, [[address, bytes], ...], empty without the shim. Each line on
stdin makes it generate and print the first line again; the end of stdin ends it.
HOLD_NUMA: what llama.cpp's --numa would be given, "distribute" for one.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

import xllamacpp

# Short, since emulated threads that wait for each other are slow.
REQUEST = {
    "prompt": "The capital of France is",
    "max_tokens": 4,
    "temperature": 0,
    "logprobs": 1,
    "ignore_eos": True,
    "cache_prompt": False,
}
VISITOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def main(model: str, threads: int) -> None:
    server = xllamacpp.Server(parameters(model, threads))
    print(json.dumps(generate(server)), flush=True)
    print(json.dumps({"pid": os.getpid(), "extents": mirrored_extents()}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(generate(server)), flush=True)


def parameters(model: str, threads: int) -> xllamacpp.CommonParams:
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = 512
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.fit_params = False
    params.cache_ram_mib = 0
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    if numa := os.environ.get("HOLD_NUMA"):
        params.numa = getattr(xllamacpp.ggml_numa_strategy, f"GGML_NUMA_STRATEGY_{numa.upper()}")
    return params


def generate(server: xllamacpp.Server) -> dict[str, Any]:
    """scores: log-probabilities, which change with the last bit of the engine's sums."""
    choice = server.handle_completions(REQUEST)["choices"][0]
    steps = choice["logprobs"]["content"]
    return {
        "text": choice["text"],
        "tokens": [step["id"] for step in steps],
        "scores": [step["logprob"] for step in steps],
    }


def mirrored_extents() -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    visit = VISITOR(lambda _context, start, size: found.append((start, size)))
    program = ctypes.CDLL(None)
    if hasattr(program, "numamirror_test_extents"):
        program.numamirror_test_extents(visit, None)
    return found


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
