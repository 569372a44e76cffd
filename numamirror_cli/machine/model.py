"""The facts about a machine, as frozen dataclasses. No I/O and no decisions here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Node:
    """A Linux NUMA node.

    cpus: its online CPUs, from cpumap (cpulist disagrees with it on some kernels).
    allowed_cpus: those of them on which this process may run.
    mem_total, mem_free: bytes; None where the kernel does not say.
    mem_reclaimable: bytes of clean page cache that the kernel can drop, 0 when unknown.
    mem_allowed: this process may allocate here (Mems_allowed_list).
    distances: node id -> SLIT distance, own node included.
    socket: index into Machine.sockets, None when it is in none (memory-only nodes).
    cores: the CPUs of each physical core, SMT siblings together, lowest CPU first; empty when the
        kernel does not say.
    gpu: PCI address of the GPU whose own memory this node is, None for main memory.
    """

    id: int
    cpus: frozenset[int]
    allowed_cpus: frozenset[int]
    mem_total: int | None
    mem_free: int | None
    mem_reclaimable: int = 0
    mem_allowed: bool = True
    distances: Mapping[int, int] = field(default_factory=dict)
    socket: int | None = None
    cores: tuple[frozenset[int], ...] = ()
    gpu: str | None = None

    @property
    def kind(self) -> str:
        """The words cpu+memory, cpu, memory or empty, by what this process is allowed to use."""
        has_cpu = bool(self.allowed_cpus)
        has_memory = bool(self.mem_total) and self.mem_allowed
        if has_cpu and has_memory:
            return "cpu+memory"
        if has_cpu:
            return "cpu"
        return "memory" if has_memory else "empty"

    @property
    def can_hold_a_copy(self) -> bool:
        """It has memory that this process may use and that is not a GPU's own."""
        return bool(self.mem_total) and self.mem_allowed and self.gpu is None


@dataclass(frozen=True)
class Gpu:
    """A display or accelerator device on the PCI bus, voting or not.

    address: "0000:82:01.0"; pci_class: 0x030000; vendor: 0x1002 or None when unreadable.
    node: kernel node id, None when unknown.
    reason: why it votes, or why it does not, as a phrase.
    """

    address: str
    pci_class: int
    vendor: int | None
    name: str
    node: int | None
    votes: bool
    reason: str


@dataclass(frozen=True)
class Home:
    """The elected home node and the sentence that says why. node is None without NUMA."""

    node: int | None
    reason: str


@dataclass(frozen=True)
class Machine:
    """Everything that placement decisions need, read once.

    numa: the kernel exposes NUMA nodes (/sys/devices/system/node exists with a node).
    replica_node_of_cpu_node: for each node with allowed CPUs, the memory node that its CPUs read
        a replica from: itself, or the nearest mirror node.
    mirror_nodes: nodes that have both, in id order; when no CPU node has memory, the memory nodes
        nearest to the CPU nodes, which are the values of replica_node_of_cpu_node.
    allowed_mems: the text of Mems_allowed_list as messages quote it, "" when nothing limits it.
    """

    root: Path
    numa: bool
    nodes: tuple[Node, ...]
    sockets: tuple[tuple[int, ...], ...]
    mirror_nodes: tuple[int, ...]
    replica_node_of_cpu_node: Mapping[int, int]
    gpus: tuple[Gpu, ...]
    home: Home
    notes: tuple[str, ...] = ()
    allowed_mems: str = ""

    def node(self, node_id: int) -> Node:
        """The node with that kernel id. Raises KeyError when there is none."""
        for node in self.nodes:
            if node.id == node_id:
                return node
        raise KeyError(node_id)
