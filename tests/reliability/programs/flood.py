"""Speaks to the launcher as the shim does, far too much: notes, oversized ones, descriptors.

Prints what the launcher holds then: {"descriptors", "resident_kib"}.
"""

from __future__ import annotations

import array
import json
import os
import socket
import time
from pathlib import Path

ROUNDS = 4000


def main() -> None:
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    channel.connect("\0" + os.environ["NUMAMIRROR_EVENTS"][1:])
    note = event("note", level="info", what="x" * 3900)
    hello = event("hello", version="flood")
    descriptors = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
    for number in range(ROUNDS):
        channel.send(note)
        channel.sendmsg([hello], descriptors)
        if number % 10 == 0:
            channel.send(b"{" + b"x" * 60_000)
    time.sleep(0.2)
    print(json.dumps(holdings(Path(f"/proc/{os.getppid()}"))))


def event(name: str, **data: str) -> bytes:
    return json.dumps({"v": 1, "pid": os.getpid(), "event": name, **data}).encode()


def holdings(process: Path) -> dict[str, int]:
    lines = (process / "status").read_text().splitlines()
    resident = next(line for line in lines if line.startswith("VmRSS:"))
    descriptors = len(list((process / "fd").iterdir()))
    return {"descriptors": descriptors, "resident_kib": int(resident.split()[1])}


if __name__ == "__main__":
    main()
