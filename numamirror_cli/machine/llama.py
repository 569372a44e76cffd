"""What llama.cpp's own --numa makes of a machine.

Its start-up code counts node0, node1, ... until a directory is missing, at most 8, and looks at
neither CPUs nor memory of what it counts (ggml_numa_init in ggml-cpu.c).
"""

from __future__ import annotations

from dataclasses import dataclass

from numamirror_cli.machine.model import Machine

MOST_NODES = 8


@dataclass(frozen=True)
class LlamaView:
    """nodes: those it would spread threads over; empty: it takes the machine for one without NUMA.
    missed: nodes with CPUs that it does not see. without_cpus: nodes it counts that have none."""

    nodes: tuple[int, ...]
    missed: tuple[int, ...]
    without_cpus: tuple[int, ...]


def llama_view(machine: Machine) -> LlamaView:
    """The nodes that `llama-server --numa ...` would see."""
    ids = {node.id for node in machine.nodes}
    seen = 0
    while seen in ids and seen < MOST_NODES:
        seen += 1
    nodes = tuple(range(seen))
    return LlamaView(
        nodes=nodes,
        missed=tuple(node.id for node in machine.nodes if node.cpus and node.id not in nodes),
        without_cpus=tuple(n.id for n in machine.nodes if not n.cpus and n.id in nodes),
    )
