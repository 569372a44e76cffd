"""Write a process below a root, as /proc would show it, so that the commands can be replayed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.conftest import write, write_machine

TWO_NODES = {0: {"cpus": "0-7"}, 1: {"cpus": "8-15"}}
PID = 4711


def two_node_root(directory: Path, nodes: Mapping[int, Mapping[str, object]] = TWO_NODES) -> Path:
    """A machine with those nodes and numa_balancing off."""
    root = directory / "root"
    write_machine(root, nodes)
    write(root / "proc/sys/kernel/numa_balancing", "0\n")
    return root


def write_process(
    root: Path,
    numa_maps: str,
    *,
    maps: str = "",
    pid: int = PID,
    arguments: tuple[str, ...] = ("llama-server", "-m", "/models/m.gguf"),
    cpus: tuple[int, ...] = (0,),
    allowed: str = "0-15",
    state: str = "S",
    parent: int = 1,
    resident_kib: int = 0,
) -> None:
    """One thread for each of `cpus`. Without `maps`, the mappings' ends are not known."""
    process = root / f"proc/{pid}"
    name = Path(arguments[0]).name[:15]
    write(process / "cmdline", "".join(f"{word}\0" for word in arguments))
    write(process / "cpuset", "/\n")
    write(process / "numa_maps", numa_maps)
    write(process / "maps", maps)
    write(
        process / "status",
        f"Name:\t{name}\nVmRSS:\t{resident_kib} kB\nMems_allowed_list:\t0-1\n"
        f"Cpus_allowed_list:\t{allowed}\n",
    )
    write(process / "stat", stat_line(pid, name, state, cpus[0], parent))
    for number, cpu in enumerate(cpus):
        task = process / f"task/{pid + number}"
        write(task / "stat", stat_line(pid + number, name, state, cpu, parent))
        write(task / "status", f"Cpus_allowed_list:\t{allowed}\n")


def stat_line(pid: int, name: str, state: str, cpu: int, parent: int) -> str:
    """The fields of proc(5) that are read: state, ppid, starttime (22) and processor (39)."""
    fields = [state, str(parent), *["0"] * 17, "777", *["0"] * 16, str(cpu), *["0"] * 13]
    return f"{pid} ({name}) {' '.join(fields)}\n"


def case(shared_dir: Path, name: str) -> Mapping[str, object]:
    """A field case by its id; the test is skipped where ../shared is absent."""
    cases = json.loads((shared_dir / "cases/cases.json").read_text())
    for kind in cases.values():
        for entry in kind if isinstance(kind, list) else ():
            if entry["id"] == name:
                return entry
    raise pytest.UsageError(f"no field case {name}")
