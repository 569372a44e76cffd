"""Checks of the machine: its nodes, what this process may use of them, its GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from numamirror_cli.doctor.check import BAD, OK, WARN, Check
from numamirror_cli.doctor.facts import Facts
from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.machine.gpus import NODE_UNKNOWN
from numamirror_cli.machine.model import Machine
from numamirror_cli.machine.notes import name_nodes

# By what the sentence on hidden nodes blames: what undoes it.
_UNHIDE = {
    "firmware": "turn node interleaving off in the firmware (or NUMA nodes per socket on)",
    "numa=off": "take numa=off from the kernel command line and boot again",
    "hypervisor": "give the virtual machine its nodes (vNUMA), with its memory and CPUs bound",
}


def machine_checks(facts: Facts) -> Iterator[Check]:
    """All checks of the machine, in the order in which a reader needs them."""
    machine = facts.machine
    yield _sockets(facts)
    if machine.numa:
        yield _nodes(machine)
        yield _allowed_cpus(machine)
        yield _allowed_memory(machine)
    yield from _gpus(machine)
    for note in machine.notes:
        if note.startswith(("/sys", "/proc")):
            report = "tell its vendor, or us: numamirror topology --gather FILE.tar.xz"
            yield Check("readings", WARN, f"{note}; the rest was used", report)


def _sockets(facts: Facts) -> Check:
    """Nodes that the firmware, the kernel or a hypervisor keeps from us (case M03)."""
    if facts.hidden_nodes:
        remedy = next((r for cause, r in _UNHIDE.items() if cause in facts.hidden_nodes), "")
        return Check("sockets", BAD, facts.hidden_nodes, remedy)
    sockets = len(facts.machine.sockets)
    if not sockets:
        return Check("sockets", OK, "this kernel exposes no NUMA nodes: nothing to mirror")
    return Check("sockets", OK, _count(sockets, "socket"))


def _nodes(machine: Machine) -> Check:
    mirror = machine.mirror_nodes
    without = [n.id for n in machine.nodes if n.allowed_cpus and not n.mem_total]
    if without:
        has, its = ("has", "its") if len(without) == 1 else ("have", "their")
        return Check(
            "nodes",
            WARN,
            f"{name_nodes(without)} {has} no memory: {its} CPUs read from the nearest node that "
            f"has; copies go to {name_nodes(mirror)}",
            "fit memory to every socket, if these are slots left empty",
        )
    idle = [n.id for n in machine.nodes if not n.cpus and n.can_hold_a_copy and n.id not in mirror]
    also = f"; {name_nodes(idle)} without CPUs: used only when named with --nodes" if idle else ""
    if not any(node.allowed_cpus for node in machine.nodes if node.id in mirror):
        return Check("nodes", OK, f"no node has both CPUs and memory that may be used{also}")
    if len(mirror) == 1:
        text = f"only {name_nodes(mirror)} has both CPUs and memory: nothing to mirror{also}"
        return Check("nodes", OK, text)
    return Check("nodes", OK, f"{len(mirror)} mirror nodes: {format_list(mirror)}{also}")


def _allowed_cpus(machine: Machine) -> Check:
    there = frozenset[int]().union(*(node.cpus for node in machine.nodes))
    allowed = frozenset[int]().union(*(node.allowed_cpus for node in machine.nodes))
    if allowed == there:
        return Check("allowed CPUs", OK, f"all of {format_list(there)}")
    shut_out = [node.id for node in machine.nodes if node.cpus and not node.allowed_cpus]
    nodes = f", none of {name_nodes(shut_out)}" if shut_out else ""
    return Check(
        "allowed CPUs",
        WARN,
        f"{format_list(allowed)} of {format_list(there)}{nodes}",
        "start it outside taskset and numactl, or widen cpuset.cpus of the cgroup",
    )


def _allowed_memory(machine: Machine) -> Check:
    shut_out = [node.id for node in machine.nodes if node.mem_total and not node.mem_allowed]
    if not shut_out:
        return Check("allowed memory", OK, "all nodes")
    verb = "is" if len(shut_out) == 1 else "are"
    cut_off = [n for n in shut_out if machine.node(n).allowed_cpus]
    reads = f"; CPUs of {name_nodes(cut_off)} read from other nodes" if cut_off else ""
    return Check(
        "allowed memory",
        WARN,
        f"{name_nodes(shut_out)} {verb} not in Mems_allowed_list ({machine.allowed_mems}){reads}",
        "widen cpuset.mems of the cgroup",
    )


def _gpus(machine: Machine) -> Iterator[Check]:
    unknown = [gpu.address for gpu in machine.gpus if gpu.reason.startswith(NODE_UNKNOWN)]
    voting = [gpu for gpu in machine.gpus if gpu.votes]
    if unknown and len(machine.mirror_nodes) > 1:
        yield Check(
            "GPUs",
            WARN,
            f"node unknown of {', '.join(unknown)}: no vote on the home node, which is "
            f"{machine.home.node}",
            "numamirror run --home N, with the node of the slot that the GPU is in",
        )
    elif voting:
        yield Check("GPUs", OK, f"home node {machine.home.node}: {machine.home.reason}")


def _count(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
