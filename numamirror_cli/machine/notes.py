"""What a user should know about this machine before placing memory on it, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.machine.model import Node
from numamirror_cli.machine.tree import Tree


def notes_on_nodes(
    nodes: Sequence[Node], mirror_nodes: Sequence[int], allowed_mems: str
) -> Iterator[str]:
    """Nodes that get no copy and why, and what the rest adds up to."""
    if not nodes:
        yield "this kernel exposes no NUMA nodes (/sys/devices/system/node): nothing to mirror"
        return

    def named(test: Callable[[Node], bool]) -> str:
        return name_nodes([node.id for node in nodes if test(node)])

    if who := named(lambda n: bool(n.cpus) and not n.allowed_cpus):
        yield f"{who}: no allowed CPU"
    if who := named(lambda n: bool(n.mem_total) and not n.mem_allowed):
        verb = "is" if who.startswith("node ") else "are"
        yield f"{who} {verb} not in Mems_allowed_list ({allowed_mems})"
    if who := named(lambda n: bool(n.allowed_cpus) and not n.mem_total):
        its = ("has", "its") if who.startswith("node ") else ("have", "their")
        yield f"{who} {its[0]} no memory: {its[1]} CPUs read from the nearest node that has"
    if who := named(lambda n: n.gpu is not None):
        verb = "is" if who.startswith("node ") else "are"
        yield f"{who} {verb} GPU memory: never used for a copy"
    if who := named(lambda n: not n.cpus and n.can_hold_a_copy and n.id not in mirror_nodes):
        verb = "is" if who.startswith("node ") else "are"
        yield f"{who} {verb} memory without CPUs (HBM, CXL or device memory): " + (
            "used only when named with --nodes"
        )
    if who := named(lambda n: not n.cpus and not n.mem_total):
        verb = "has" if who.startswith("node ") else "have"
        yield f"{who} {verb} neither CPUs nor memory"
    if len([node for node in nodes if node.allowed_cpus]) == 1:
        yield "one node with CPUs: nothing to mirror"
    elif len(mirror_nodes) == 1:
        yield "one node with CPUs and memory: nothing to mirror"


def name_nodes(ids: Sequence[int]) -> str:
    """ "node 1", "nodes 0 and 3", "nodes 1-8", "nodes 0, 2 and 5-7"; "" for none."""
    if not ids:
        return ""
    if len(ids) == 1:
        return f"node {ids[0]}"
    *first, last = format_list(ids).split(",")
    return f"nodes {', '.join(first)} and {last}" if first else f"nodes {last}"


def note_on_sockets(sockets: Sequence[Sequence[int]], mirror_nodes: Sequence[int]) -> Iterator[str]:
    """Several nodes per socket: a copy per socket costs less than one per node."""
    used = [group for group in sockets if set(group) & set(mirror_nodes)]
    inside = sum(len(set(group) & set(mirror_nodes)) for group in used)
    if 1 < len(used) < inside == len(mirror_nodes):
        yield (
            f"{inside} mirror nodes in {len(used)} sockets: "
            f"--per socket makes {len(used)} copies instead of {inside}"
        )


def note_on_hidden_nodes(
    tree: Tree, nodes: Sequence[Node], packages_per_node: Sequence[int]
) -> Iterator[str]:
    """NUMA that does not show: firmware, kernel command line or hypervisor hides it.

    packages_per_node: number of physical packages that each node's CPUs belong to.
    """
    is_off = "numa=off" in (tree.text("proc/cmdline") or "").split()
    most = max(packages_per_node, default=0)
    if most < 2:
        if is_off:
            yield "numa=off is on the kernel command line: the kernel shows one node at most"
        return
    sockets = {2: "two"}.get(most, str(most))
    spanning = nodes[packages_per_node.index(most)].id
    shown = f"{sockets} sockets but " + (
        "one node" if len(nodes) == 1 else f"node {spanning} spans them"
    )
    if is_off:
        yield f"{shown}: numa=off is on the kernel command line"
    elif _is_virtual(tree):
        yield f"{shown}: the hypervisor does not show this machine's nodes"
    else:
        yield (
            f"{shown}: node interleaving is on in firmware, mirroring is impossible until it is off"
        )


def _is_virtual(tree: Tree) -> bool:
    """The hypervisor bit of CPUID, which the kernel lists among the flags on x86."""
    for line in (tree.text("proc/cpuinfo") or "").splitlines():
        if line.startswith("flags"):
            return "hypervisor" in line.split()
    return False
