"""The guests: each one a machine that people have, as small as it can be."""

from __future__ import annotations

from .vm import Guest, Node

NEAR_FAR = ((10, 21), (21, 10))

# Two sockets, both GPUs on the second one, a board VGA that must not count.
TWO_NODES = Guest(
    "two nodes, GPUs on node 1", (Node(), Node()), NEAR_FAR, sockets=(1, 1), gpus=(1, 1)
)

# Sub-NUMA clustering: two nodes in each of two sockets.
FOUR_NODES = Guest(
    "four nodes in two sockets",
    (Node(memory_mib=640),) * 4,
    ((10, 11, 21, 21), (11, 10, 21, 21), (21, 21, 10, 11), (21, 21, 11, 10)),
    sockets=(2, 2),
)

# CXL or GPU memory: a node that computes nothing, nearer to node 1.
MEMORY_ONLY_NODE = Guest(
    "two CPU nodes and a memory-only node",
    (Node(), Node(), Node(cpus=0, memory_mib=512)),
    ((10, 21, 28), (21, 10, 14), (28, 14, 10)),
    sockets=(1, 1),
)

# A socket whose DIMM slots are empty.
CPU_NODE_WITHOUT_MEMORY = Guest(
    "a CPU node without memory and one with",
    (Node(memory_mib=0), Node(memory_mib=1536)),
    NEAR_FAR,
    sockets=(1, 1),
)

# CPU 3 has APIC id 4. QEMU 7 loses IPIs to logical ids behind such a gap; with more than eight
# possible CPUs the kernel addresses them physically.
UNEQUAL_SOCKETS = Guest(
    "unequal sockets",
    (Node(cpus=3), Node(cpus=1)),
    NEAR_FAR,
    sockets=(3, 1),
    kernel_options="possible_cpus=9",
)

ONE_NODE = Guest("one node", (Node(cpus=2, memory_mib=1536),))

# Two sockets whose kernel was told to ignore that.
NUMA_OFF = Guest("numa=off", (Node(), Node()), NEAR_FAR, sockets=(1, 1), kernel_options="numa=off")

CATALOGUE = (
    TWO_NODES, FOUR_NODES, MEMORY_ONLY_NODE, CPU_NODE_WITHOUT_MEMORY, UNEQUAL_SOCKETS, ONE_NODE,
    NUMA_OFF,
)  # fmt: skip
