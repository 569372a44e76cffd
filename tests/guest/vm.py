"""Describes a guest, boots it under QEMU's emulation, runs steps in it and brings their results."""

from __future__ import annotations

import compileall
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .initramfs import build_initramfs
from .kernel import find_kernel, find_qemu

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
# A test run that is killed leaves no guest behind.
DIE_WITH_US = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
# No journey of the guest's kernel through self-tests, mitigations and old buses: seconds each.
QUICK_BOOT = "quiet loglevel=4 console=ttyS0 panic=-1 mitigations=off nokaslr cryptomgr.notests"


@dataclass(frozen=True)
class Node:
    """A node of the guest. cpus: how many; memory_mib: 0 for a node without memory."""

    cpus: int = 1
    memory_mib: int = 1024


@dataclass(frozen=True)
class Guest:
    """A machine to boot.

    nodes: nodes with CPUs first; the kernel numbers memory-only nodes after them.
    distances: the SLIT, row by row; None leaves QEMU's 10 and 20.
    sockets: CPUs of each package, in CPU order, the largest first; None: a package for all.
    gpus: the node of each AMD display device; each node of them gets its own PCI host bridge.
    kernel_options: added to the kernel command line, such as "numa=off".
    modules: of the kernel, to be loaded before the steps, such as "ext4".
    """

    name: str
    nodes: tuple[Node, ...]
    distances: tuple[tuple[int, ...], ...] | None = None
    sockets: tuple[int, ...] | None = None
    gpus: tuple[int, ...] = ()
    kernel_options: str = ""
    modules: tuple[str, ...] = ()

    @property
    def cpus(self) -> int:
        return sum(node.cpus for node in self.nodes)


@dataclass(frozen=True)
class Step:
    """A command to run in the guest. limit: seconds after which its process group is killed."""

    name: str
    command: tuple[str, ...]
    limit: float = 300
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """What a step did. code: exit status, -n for signal n; timed_out: it met its limit."""

    name: str
    code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool

    def json(self) -> Any:
        """The document on stdout, its first line if there are more than one.

        Raises AssertionError showing the step where there is none.
        """
        try:
            return json.JSONDecoder().raw_decode(self.stdout)[0]
        except ValueError:
            raise AssertionError(f"no JSON from {self}") from None

    def __str__(self) -> str:
        ended = "timed out" if self.timed_out else f"exit {self.code}"
        return f"{self.name} ({ended}, {self.seconds:.1f} s)\n{self.stdout}\n{self.stderr}"


class GuestFailure(Exception):
    """The guest did not run all its steps. Shows the end of its console."""


def boot(guest: Guest, steps: Sequence[Step], work: Path, limit: float = 180) -> dict[str, Result]:
    """Boots `guest`, runs `steps` one after the other and returns their results by name.

    work: an empty directory; console.log and every result stay there.
    limit: seconds for the whole guest, boot included.
    Raises Missing when this machine lacks a kernel or QEMU, GuestFailure when the guest did not
    come to its end.
    """
    qemu, kernel = find_qemu(), find_kernel()
    compile_for_guest()
    exchange = work / "exchange"
    exchange.mkdir(parents=True)
    write_orders(exchange, steps)
    initramfs = build_initramfs(kernel.modules, work, guest.modules)
    command = [*DIE_WITH_US, str(qemu), *qemu_arguments(guest, work, exchange)]
    command += ["-kernel", str(kernel.image), "-initrd", str(initramfs)]
    command += ["-append", f"{QUICK_BOOT} {guest.kernel_options}".strip()]
    complaint = run_to_end(command, limit)
    return collect(guest, steps, work, complaint)


def compile_for_guest() -> None:
    """The guest cannot write bytecode, and to compile under emulation takes seconds each time."""
    for directory in (REPOSITORY / "numamirror_cli", HERE):
        compileall.compile_dir(directory, quiet=2)


def run_to_end(command: list[str], limit: float) -> str:
    """Runs QEMU; returns what it complained about, or that it met its limit."""
    started = time.monotonic()
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=limit)  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"stopped after {time.monotonic() - started:.0f} s"
    return done.stderr.strip()


def collect(guest: Guest, steps: Sequence[Step], work: Path, complaint: str) -> dict[str, Result]:
    results = {}
    for number, step in enumerate(steps):
        path = work / "exchange" / f"result-{number}.json"
        if not path.exists():
            end = last_words(work / "console.log")
            raise GuestFailure(f"{guest.name}: no result of {step.name}; {complaint}\n{end}")
        results[step.name] = Result(**json.loads(path.read_text()))
    return results


def last_words(console: Path) -> str:
    return console.read_text(errors="replace")[-3000:] if console.exists() else "(no console)"


def write_orders(exchange: Path, steps: Sequence[Step]) -> None:
    """What init.c runs in the guest: a start script, which runs agent.py over the steps."""
    (exchange / "steps.json").write_text(json.dumps([asdict(step) for step in steps]))
    agent = shlex.join([sys.executable, str(HERE / "agent.py"), "/run/guest"])
    exports = shlex.join(["export", *(f"{key}={value}" for key, value in environment().items())])
    (exchange / "start").write_text(f"{exports}\nexec {agent}\n")


def environment() -> dict[str, str]:
    """The root is read-only in the guest: what is written goes to memory under /run.

    Which shim is under test is the caller's choice, in the guest too.
    """
    shim = os.environ.get("NUMAMIRROR_SHIM")
    chosen = {"NUMAMIRROR_SHIM": str(Path(shim).resolve())} if shim else {}
    python_path = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    return chosen | {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(python_path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/run/home",
        "TMPDIR": "/run/tmp",
        "COLUMNS": "80",
        "LC_ALL": "C.UTF-8",
    }


def qemu_arguments(guest: Guest, work: Path, exchange: Path) -> list[str]:
    return [
        *("-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"),
        *("-display", "none", "-vga", "std", "-net", "none", "-no-reboot"),
        *("-serial", f"file:{work / 'console.log'}", "-monitor", "none"),
        *processors(guest),
        *memory(guest),
        *node_distances(guest),
        *graphics(guest),
        *shared_directory("host", Path("/"), "readonly=on,multidevs=remap"),
        *shared_directory("exchange", exchange, "multidevs=remap"),
    ]


def processors(guest: Guest) -> list[str]:
    sockets = guest.sockets or (guest.cpus,)
    slots = len(sockets) * max(sockets)
    return ["-smp", f"{guest.cpus},sockets={len(sockets)},cores={max(sockets)},maxcpus={slots}"]


def memory(guest: Guest) -> list[str]:
    """One -numa option per node. Empty CPU slots of the last package belong to its node."""
    sockets = guest.sockets or (guest.cpus,)
    last_cpu_node = max(number for number, node in enumerate(guest.nodes) if node.cpus)
    arguments = ["-m", f"{sum(node.memory_mib for node in guest.nodes)}M"]
    first = 0
    for number, node in enumerate(guest.nodes):
        option = f"node,nodeid={number}"
        if node.cpus:
            end = len(sockets) * max(sockets) if number == last_cpu_node else first + node.cpus
            option += f",cpus={first}-{end - 1}"
            first = end
        if node.memory_mib:
            backend = f"memory-backend-ram,id=ram{number},size={node.memory_mib}M"
            arguments += ["-object", backend]
            option += f",memdev=ram{number}"
        arguments += ["-numa", option]
    return arguments


def node_distances(guest: Guest) -> list[str]:
    return [
        argument
        for source, row in enumerate(guest.distances or ())
        for target, distance in enumerate(row)
        for argument in ("-numa", f"dist,src={source},dst={target},val={distance}")
    ]


def graphics(guest: Guest) -> list[str]:
    """A PCI expander host bridge per node with GPUs, and the GPUs behind it."""
    arguments = []
    for node in sorted(set(guest.gpus)):
        bus = 64 + 32 * node
        devices = [
            f"pxb-pcie,id=pxb{node},bus_nr={bus},numa_node={node},bus=pcie.0",
            f"pcie-root-port,id=port{node},bus=pxb{node},chassis={node + 1},slot={node + 1}",
            f"pcie-pci-bridge,id=bridge{node},bus=port{node}",
        ]
        for slot in range(1, guest.gpus.count(node) + 1):
            devices.append(f"ati-vga,bus=bridge{node},addr={slot}")
        for device in devices:
            arguments += ["-device", device]
    return arguments


def shared_directory(tag: str, path: Path, options: str) -> list[str]:
    quoted = str(path).replace(",", ",,")
    return [
        *("-fsdev", f"local,id={tag},path={quoted},security_model=none,{options}"),
        *("-device", f"virtio-9p-pci,bus=pcie.0,fsdev={tag},mount_tag={tag}"),
    ]
