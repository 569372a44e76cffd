"""Drives llama-server with its experts on the CPU and the rest on a Vulkan device, Mesa's software
one: a long prompt makes it send experts to the device."""

from __future__ import annotations

import os
import shlex
import sys

import fetch
from drive_llama_server import Server, server_command
from driver import parse_options, pause_after_warm_up, print_result

PROMPT = "huja fuhe conu guli dege bole " * 24


def main() -> None:
    options = parse_options(__doc__ or "")
    if options.engine_dir is None or options.second_model is not None or options.mmap:
        sys.exit("needs --engine-dir and --no-mmap, and serves one model")
    os.environ["VK_DRIVER_FILES"] = str(fetch.lavapipe())
    os.environ["GGML_VK_VISIBLE_DEVICES"] = "0"  # by itself it takes no software device
    on_device = ("--gpu-layers", "99", "--override-tensor", "exps=CPU")
    command = server_command(options, options.engine_dir, *on_device)
    server = Server([*shlex.split(options.under), *command])
    pause_after_warm_up(options)
    generation = server.complete(PROMPT, options.n)
    server.stop()
    print_result("llama-server with Vulkan", [generation])


if __name__ == "__main__":
    main()
