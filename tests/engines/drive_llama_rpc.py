"""Drives llama-server over two workers of llama.cpp's RPC, all on the loopback.

--under: command line to start the workers with; "{worker}" in it becomes the worker's number.
"""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from drive_llama_server import Server, server_command
from driver import Options, parse_options, pause_after_warm_up, print_result

WORKERS = 2
SECONDS_TO_LISTEN = 300


def free_address() -> str:
    """HOST:PORT that is free now. The host is a loopback address of our own, at which no other
    program's connection can take the port before the worker listens there."""
    host = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}.{random.randrange(1, 255)}"
    with socket.socket() as probe:
        probe.bind((host, 0))
        return f"{host}:{probe.getsockname()[1]}"


def worker_command(options: Options, engine_dir: Path, number: int, address: str) -> list[str]:
    host, _, port = address.partition(":")
    return [
        *shlex.split(options.under.replace("{worker}", str(number))),
        *(str(engine_dir / "ggml-rpc-server"), "--host", host, "--port", port),
        *("--threads", str(options.threads)),
    ]


@contextlib.contextmanager
def worker(command: list[str], address: str) -> Iterator[None]:
    """A worker that listens; it has no end of its own, so that it is ended as by Ctrl-C."""
    process = subprocess.Popen(command, stdout=sys.stderr)
    try:
        wait_until_listening(process, address)
        yield
        process.send_signal(signal.SIGINT)
        process.wait(timeout=300)
    finally:
        process.kill()


def wait_until_listening(process: subprocess.Popen[bytes], address: str) -> None:
    host, _, port = address.partition(":")
    end = time.monotonic() + SECONDS_TO_LISTEN
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        time.sleep(0.1)
    sys.exit(f"ggml-rpc-server does not listen on {address}")


@contextlib.contextmanager
def listening_workers(options: Options, engine_dir: Path) -> Iterator[list[str]]:
    """The addresses of all workers, which then listen."""
    os.environ["VK_LOADER_DRIVERS_DISABLE"] = "*"  # the workers' CPUs are meant
    addresses = [free_address() for _ in range(WORKERS)]
    with contextlib.ExitStack() as workers:
        for number, address in enumerate(addresses):
            command = worker_command(options, engine_dir, number, address)
            workers.enter_context(worker(command, address))
        yield addresses


def main() -> None:
    options = parse_options(__doc__ or "")
    if options.engine_dir is None or options.second_model is not None:
        sys.exit("needs --engine-dir, and serves one model")
    with listening_workers(options, options.engine_dir) as addresses:
        remote = ("--rpc", ",".join(addresses), "--gpu-layers", "99")
        server = Server(server_command(options, options.engine_dir, *remote))
        pause_after_warm_up(options)
        generation = server.complete(options.prompt, options.n)
        server.stop()
    print_result("llama-server over RPC", [generation])


if __name__ == "__main__":
    main()
