"""Drives llama-server: starts it on a free port of 127.0.0.1, asks once, stops it."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from driver import Generation, Options, parse_options, pause_after_warm_up, print_result

LISTENING = re.compile(r"listening on (http://127\.0\.0\.1:\d+)")


def server_command(options: Options, engine_dir: Path, *more: str) -> list[str]:
    return [
        *(str(engine_dir / "llama-server"), "--model", str(options.model)),
        *("--host", "127.0.0.1", "--port", "0", "--offline", *more),
        *("--ctx-size", "512", "--parallel", "1"),
        *("--threads", str(options.threads), "--threads-batch", str(options.threads)),
        *(() if options.mmap else ("--no-mmap",)),  # since ggml 0.25 there is no --mmap
        "--repack" if options.repack else "--no-repack",
    ]


class Server:
    """A running server; its log goes on to our stderr. listening: where that says its address."""

    def __init__(self, arguments: list[str], listening: re.Pattern[str] = LISTENING) -> None:
        self.listening = listening
        self.process = subprocess.Popen(
            arguments, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, errors="replace"
        )
        self.address = self.wait_until_listening()
        threading.Thread(target=self.pass_log_on, daemon=True).start()

    def log(self) -> Iterator[str]:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            sys.stderr.write(line)
            yield line

    def wait_until_listening(self) -> str:
        for line in self.log():
            if found := self.listening.search(line):
                return found[1]
        sys.exit(f"the server ended with {self.process.wait()} before it listened")

    def pass_log_on(self) -> None:
        for _ in self.log():
            pass

    def complete(self, prompt: str, count: int) -> Generation:
        answer = self.ask(
            "/completion",
            {
                "prompt": prompt,
                "n_predict": count,
                "temperature": 0,
                "n_probs": 1,
                "ignore_eos": True,
                "cache_prompt": False,
                "return_tokens": True,
            },
        )
        return Generation(
            text=answer["content"],
            tokens=answer["tokens"],
            scores=[step["logprob"] for step in answer["completion_probabilities"]],
        )

    def ask(self, path: str, body: dict[str, object]) -> Any:
        request = urllib.request.Request(
            self.address + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)

    def stop(self) -> None:
        """Ends it as Ctrl-C would. Raises CalledProcessError when it then fails."""
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(timeout=300)
        if status != 0:
            raise subprocess.CalledProcessError(status, self.process.args)


def main() -> None:
    options = parse_options(__doc__ or "")
    if options.engine_dir is None or options.second_model is not None:
        sys.exit("needs --engine-dir, and serves one model")
    no_gpu = ("--device", "none")  # even where the build has a backend for one
    command = server_command(options, options.engine_dir, *no_gpu)
    server = Server([*shlex.split(options.under), *command])
    pause_after_warm_up(options)
    generation = server.complete(options.prompt, options.n)
    server.stop()
    print_result("llama-server", [generation])


if __name__ == "__main__":
    main()
