"""What `numamirror bench` found: one cell for each pair of nodes, and the machine it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.machine.model import Machine
from numamirror_cli.plan.bandwidth import Bandwidth

SCHEMA = 1


@dataclass(frozen=True)
class Spread:
    """The tenth percentile, the median and the ninetieth percentile of repeated passes."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class Cell:
    """CPUs of one node reading memory of one node.

    threads: one on each physical core of the reading node. all, one: GB/s (10^9 bytes a second) of
    all of them, and of a single thread. latency: ns of one load that needs the last one. bytes: of
    memory that was read, huge_bytes of it in huge pages. sampled, sampled_there: pages the kernel
    was asked about, and those that lay on the memory's node; both 0 where there is one node.
    problem: why there are no figures, "" when there are.
    """

    reader: int
    memory: int
    threads: int = 0
    all: Spread | None = None
    one: Spread | None = None
    latency: Spread | None = None
    bytes: int = 0
    huge_bytes: int = 0
    sampled: int = 0
    sampled_there: int = 0
    problem: str = ""


@dataclass(frozen=True)
class NodeIdentity:
    """A node's id and its online CPUs, as a list such as "0-15"."""

    id: int
    cpus: str


@dataclass(frozen=True)
class Identity:
    """What makes another day's figures valid here. cpu: the model's name, "" when unknown. How
    much memory there is does not belong to it: virtual machines change that as they run."""

    cpu: str
    nodes: tuple[NodeIdentity, ...]

    @property
    def key(self) -> str:
        """A name for files, the same for the same machine."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class BenchResult:
    """taken: seconds since 1970. load: average of one minute before the start: tasks that ran or
    waited for a CPU or a disk. numa_balancing: None where the kernel has no such setting."""

    identity: Identity
    kernel: str
    numa_balancing: int | None
    taken: float
    load: float
    cells: tuple[Cell, ...]

    @property
    def day(self) -> str:
        return datetime.fromtimestamp(self.taken, timezone.utc).strftime("%Y-%m-%d")


def identify(machine: Machine, root: Path = Path("/")) -> Identity:
    """The identity of the machine below `root`, of whom `machine` was read."""
    nodes = (NodeIdentity(node.id, format_list(node.cpus)) for node in machine.nodes)
    return Identity(_cpu_model(root), tuple(nodes))


def _cpu_model(root: Path) -> str:
    try:
        text = (root / "proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return ""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "cpu", "cpu model"):
            return value.strip()
    return ""


def bandwidth_of(result: BenchResult) -> Bandwidth:
    """The medians, as the predictions take them. A pair without figures is left out."""
    measured = [cell for cell in result.cells if cell.all and cell.one]
    return Bandwidth(
        read={(cell.reader, cell.memory): cell.all.median for cell in measured if cell.all},
        one_thread={(cell.reader, cell.memory): cell.one.median for cell in measured if cell.one},
        source=f"the bench of {result.day}",
    )


def to_json(result: BenchResult) -> dict[str, Any]:
    """The document that is stored and that --json prints (docs/json.md)."""
    return {"schema": SCHEMA, **asdict(result)}


def from_json(document: Mapping[str, Any]) -> BenchResult:
    """The result of such a document. Raises ValueError for any other, in words for the user."""
    try:
        schema = document["schema"]
        if schema == SCHEMA:
            return _result(document)
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError):
        raise ValueError("no result of numamirror bench") from None
    raise ValueError(f"a result of another version of numamirror (schema {schema})")


def _result(document: Mapping[str, Any]) -> BenchResult:
    identity = document["identity"]
    nodes = tuple(NodeIdentity(int(n["id"]), str(n["cpus"])) for n in identity["nodes"])
    return BenchResult(
        identity=Identity(str(identity["cpu"]), nodes),
        kernel=str(document["kernel"]),
        numa_balancing=document["numa_balancing"],
        taken=float(document["taken"]),
        load=float(document["load"]),
        cells=tuple(_cell(each) for each in document["cells"]),
    )


def _cell(facts: Mapping[str, Any]) -> Cell:
    spreads = {name: _spread(facts[name]) for name in ("all", "one", "latency")}
    return Cell(**{**facts, **spreads})


def _spread(facts: Mapping[str, Any] | None) -> Spread | None:
    return None if facts is None else Spread(*(float(facts[k]) for k in ("low", "median", "high")))
