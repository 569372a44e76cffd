"""Drives libllama, of `client` in --engine-dir, over two workers of llama.cpp's RPC.

--under: command line to start the workers with; "{worker}" in it becomes the worker's number.
"""

from __future__ import annotations

import ctypes as c
import sys

from drive_llama_ctypes import Model, open_llama
from drive_llama_rpc import listening_workers
from driver import parse_options, pause_after_warm_up, print_result


def add_worker(llama: c.CDLL, address: str) -> None:
    """What `--rpc` of llama.cpp's programs does: models loaded from now on are spread to it."""
    llama.ggml_backend_rpc_add_server.restype = c.c_void_p
    worker = llama.ggml_backend_rpc_add_server(address.encode())
    if not worker:
        sys.exit(f"{address}: no worker that this llama.cpp can speak to")
    llama.ggml_backend_register(c.c_void_p(worker))


def main() -> None:
    options = parse_options(__doc__ or "")
    if options.engine_dir is None or options.second_model is not None:
        sys.exit("needs --engine-dir, and loads one model")
    with listening_workers(options, options.engine_dir) as addresses:
        llama = open_llama(options.engine_dir / "client")
        for address in addresses:
            add_worker(llama, address)
        model = Model(llama, options.model, options.threads)
        model.warm_up()
        pause_after_warm_up(options)
        generation = model.generate(options.prompt, options.n)
        model.free()
    print_result("libllama over RPC", [generation])


if __name__ == "__main__":
    main()
