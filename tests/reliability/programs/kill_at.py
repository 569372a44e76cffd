"""Kills an engine with SIGKILL when the shim in it has come to an event, and ends by SIGKILL too.

    kill_at.py EVENT COMMAND...

EVENT: of docs/protocol.md, "build" for one. Ends as COMMAND does where that does not come.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys


def main(event: str, command: list[str]) -> int:
    speaking = {**os.environ, "NUMAMIRROR_LOG": "1"}
    with subprocess.Popen(command, env=speaking, stderr=subprocess.PIPE) as engine:
        assert engine.stderr is not None
        for line in engine.stderr:
            if f'"event":"{event}"'.encode() in line:
                engine.kill()
                engine.wait()
                os.kill(os.getpid(), signal.SIGKILL)
    return engine.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
