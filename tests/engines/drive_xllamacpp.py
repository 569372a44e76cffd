"""Drives xllamacpp: llama.cpp's server inside a Python process, everything in one .so."""

from __future__ import annotations

from pathlib import Path

import xllamacpp
from driver import Generation, Options, parse_options, pause_after_warm_up, print_result


def parameters(options: Options, model: Path) -> xllamacpp.CommonParams:
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


def generate(server: xllamacpp.Server, options: Options) -> Generation:
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
    servers = [xllamacpp.Server(parameters(options, model)) for model in options.models]
    pause_after_warm_up(options)
    print_result("xllamacpp", [generate(server, options) for server in servers])


if __name__ == "__main__":
    main()
