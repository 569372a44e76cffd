"""Speaks as the shim does (docs/protocol.md), from a program of the tests, to a real launcher."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import socket
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numamirror_cli.engine.status_layout import MAGIC, NAME, STATES, VERSION, StatusLayout

MIB = 1 << 20


def send_raw(datagram: bytes, descriptors: tuple[int, ...] = ()) -> None:
    """One datagram to the launcher that started us, or a line where it has no socket."""
    if os.environ["NUMAMIRROR_EVENTS"].startswith("/"):
        write_line(datagram)
        return
    name = "\0" + os.environ["NUMAMIRROR_EVENTS"][1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to_launcher:
        to_launcher.connect(name)
        if descriptors:
            socket.send_fds(to_launcher, [datagram], list(descriptors))
        else:
            to_launcher.send(datagram)
        # Who has ended before the launcher looks at the sender is nobody's child any more.
        wait_until_read(to_launcher.fileno(), termios.TIOCOUTQ)


def write_line(text: bytes) -> None:
    """The shim waits until its hello has been read; here that is done for every line."""
    path, _, inode = os.environ["NUMAMIRROR_EVENTS"].partition("#")
    pipe = os.open(path, os.O_RDWR)
    assert os.fstat(pipe).st_ino == int(inode)
    os.write(pipe, text + b"\n")
    wait_until_read(pipe, termios.FIONREAD)
    os.close(pipe)


def wait_until_read(descriptor: int, waiting: int) -> None:
    """waiting: the ioctl that counts the bytes that the other end has not taken yet."""
    while fcntl.ioctl(descriptor, waiting, bytes(4)) != bytes(4):
        time.sleep(0.002)


def wait_until_found() -> None:
    """Until the launcher has opened the status page by itself."""
    while not any(NAME in page for page in _opened_by(os.getppid())):
        time.sleep(0.01)


def _opened_by(pid: int) -> Iterator[str]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            yield str(descriptor.readlink())


def send(event: str, *, descriptors: tuple[int, ...] = (), **keys: Any) -> None:
    """One event."""
    datagram = json.dumps({"v": 1, "pid": os.getpid(), "event": event, **keys})
    send_raw(datagram.encode(), descriptors)


def status_page(state: str = "mirrored", mirrored: int = 235 * MIB, gemm: int = 235 * MIB) -> int:
    """A status page of a rehearsal with two copies, as a memfd; its descriptor."""
    page = StatusLayout(
        magic=MAGIC,
        version=VERSION,
        bytes=ctypes.sizeof(StatusLayout),
        pid=os.getpid(),
        state=STATES.index(state),
        copies=2,
        gemm_bytes=gemm,
        mirrored_bytes=mirrored,
        engine=b"/x/libggml-cpu.so",
    )
    for index, role in enumerate((1, 2)):
        copy = page.copy[index]
        copy.node, copy.role, copy.bytes, copy.nodes = index, role, mirrored, str(index).encode()
        copy.sampled_pages = copy.sampled_local = 512
    descriptor = os.memfd_create(NAME)
    os.write(descriptor, bytes(page))
    return descriptor


def mirror(state: str = "mirrored") -> None:
    """All that a shim says when it mirrors 235 MiB on two nodes."""
    send("hello", version="9.9", descriptors=(status_page(state),))
    send("engine", library="/x/libggml-cpu.so", seams=["ggml_graph_compute"], missing=[])
    send("build", copy=1, node=1, bytes=235 * MIB)
    send("progress", copy=1, done_bytes=100 * MIB, bytes=235 * MIB)
    send("replica", copy=1, node=1, bytes=235 * MIB, ns=140_000_000, **_sampled(512))
    send("primary", node=0, bytes=235 * MIB, **_sampled(512))
    send("coverage", gemm_bytes=235 * MIB, mirrored_bytes=235 * MIB, small_bytes=0, refused_bytes=0)


def shard() -> None:
    """What a shim says while it places the rows of 235 MiB."""
    send("hello", version="9.9", descriptors=(status_page("sharded"),))
    send("placing", done_bytes=100 * MIB, bytes=235 * MIB)
    send("placing", done_bytes=235 * MIB, bytes=235 * MIB)
    send("placed", bytes=235 * MIB, pages=60160, local=60160, threads=2, ns=140_000_000)


def _sampled(local: int) -> dict[str, int]:
    return {"sampled_pages": 512, "sampled_local": local}
