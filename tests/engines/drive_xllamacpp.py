"""Drives xllamacpp: llama.cpp's server inside a Python process, everything in one .so.

--engine-dir: an unpacked wheel of another version, to be imported instead of the installed one.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from driver import Generation, Options, parse_options, pause_after_warm_up, print_result


def import_xllamacpp(directory: Path | None) -> Any:
    if directory is not None:
        sys.path.insert(0, str(directory))
    return importlib.import_module("xllamacpp")


def parameters(xllamacpp: Any, options: Options, model: Path) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.n_ctx = 512
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.fit_params = False
    params.cache_ram_mib = 0
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.no_extra_bufts = not options.repack
    if hasattr(params, "use_mmap"):  # until summer 2026
        params.use_mmap = options.mmap
    else:
        modes = xllamacpp.llama_load_mode
        mode = modes.LLAMA_LOAD_MODE_MMAP if options.mmap else modes.LLAMA_LOAD_MODE_NONE
        params.load_mode = mode
    return params


def generate(server: Any, options: Options) -> Generation:
    answer = server.handle_completions(
        {
            "prompt": options.prompt,
            "max_tokens": options.n,
            "temperature": 0,
            "logprobs": 1,
            "ignore_eos": True,
            "cache_prompt": False,
        }
    )
    choice = answer["choices"][0]
    steps = choice["logprobs"]["content"]
    return Generation(
        text=choice["text"],
        tokens=[step["id"] for step in steps],
        scores=[step["logprob"] for step in steps],
    )


def main() -> None:
    options = parse_options(__doc__ or "")
    xllamacpp = import_xllamacpp(options.engine_dir)
    servers = [xllamacpp.Server(parameters(xllamacpp, options, m)) for m in options.models]
    pause_after_warm_up(options)
    print_result("xllamacpp", [generate(server, options) for server in servers])


if __name__ == "__main__":
    main()
