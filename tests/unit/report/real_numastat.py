"""The real numastat on maps and nodes of our choice, in a mount namespace of its own.

numastat has no root override: a child in a private mount namespace sees our node directories at
/sys/devices/system/node and our text at /proc/PID/numa_maps. Nothing outside it changes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

_SCRIPT = """
mount --bind "$1/nodes" /sys/devices/system/node || exit 77
sleep 600 & pid=$!
until grep -q sleep /proc/$pid/comm; do :; done
mount --bind "$1/numa_maps" /proc/$pid/numa_maps || { kill $pid; exit 77; }
echo $pid > "$1/pid"
shift
"$@" $pid
status=$?
kill $pid
exit $status
"""


def need_numastat() -> str:
    """The path of numastat; skips the test where there is none."""
    path = shutil.which("numastat")
    if path is None:
        pytest.skip("numastat is not installed (Debian package numactl)")
    return path


def numastat_on(directory: Path, maps: str, nodes: Iterable[int], width: int) -> tuple[int, str]:
    """The pid that numastat was shown, and what it printed for those maps on those nodes."""
    numastat = need_numastat()
    for node in nodes:
        node_dir = directory / f"nodes/node{node}"
        node_dir.mkdir(parents=True, exist_ok=True)
        (node_dir / "meminfo").write_text(f"Node {node} MemTotal: 1 kB\n")
    (directory / "numa_maps").write_text(maps)
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-rm"]
    command = ["sh", "-c", _SCRIPT, "sh", str(directory), numastat, "-p"]
    child = subprocess.run(
        [*namespace, *command],
        capture_output=True,
        text=True,
        env={**os.environ, "NUMASTAT_WIDTH": str(width)},
    )
    if child.returncode == 77 or "unshare" in child.stderr:
        pytest.skip(f"no mount namespace to be had: {child.stderr.strip()}")
    return int((directory / "pid").read_text()), child.stdout
