"""Drives llama-cpp-python's own server: python -m llama_cpp.server, asked over HTTP."""

from __future__ import annotations

import re
import shlex
import sys

from drive_llama_server import Server
from driver import Generation, Options, parse_options, pause_after_warm_up, print_result

LISTENING = re.compile(r"running on (http://127\.0\.0\.1:\d+)")


def server_command(options: Options) -> list[str]:
    return [
        *(sys.executable, "-m", "llama_cpp.server", "--model", str(options.model)),
        *("--host", "127.0.0.1", "--port", "0", "--n_ctx", "512", "--logits_all", "true"),
        *("--n_threads", str(options.threads), "--n_threads_batch", str(options.threads)),
        *("--use_mmap", str(options.mmap).lower()),
    ]


def complete(server: Server, prompt: str, count: int) -> Generation:
    asked = {"prompt": prompt, "max_tokens": count, "temperature": 0, "logprobs": 1}
    (choice,) = server.ask("/v1/completions", asked)["choices"]
    said = choice["logprobs"]
    return Generation(choice["text"], said["tokens"], said["token_logprobs"])


def main() -> None:
    options = parse_options(__doc__ or "")
    if options.second_model is not None or not options.repack:
        sys.exit("serves one model, and has no option against repacking")
    server = Server([*shlex.split(options.under), *server_command(options)], LISTENING)
    complete(server, ".", 1)
    pause_after_warm_up(options)
    generation = complete(server, options.prompt, options.n)
    server.stop()
    print_result("llama-cpp-python's server", [generation])


if __name__ == "__main__":
    main()
