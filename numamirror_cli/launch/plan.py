"""The plan: from a machine, the user's wishes and the circumstances to what will be done. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from numamirror_cli.engine.preload import Preload
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.launch.copies import Copy, copies_per_node, copies_per_socket
from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.machine.home import choose_home, elect_home
from numamirror_cli.machine.mirror import choose_nodes, replica_nodes
from numamirror_cli.machine.model import Home, Machine
from numamirror_cli.memory.policy import Policy
from numamirror_cli.notice import Notice
from numamirror_cli.plan.strategy import Strategy

DEFAULT_MIN_BYTES = 1 << 20
# What the shim can read (native/src/config.c).
MOST_ADAPT_TOKENS = 1 << 20


# Of the shim: NM_MAX_COPIES in native/include/numamirror_status.h.
_MOST_COPIES = 64


@dataclass(frozen=True)
class Budget:
    """An amount of memory: in bytes, or as a share of the smallest node that gets a copy."""

    bytes: int = 0
    share: float = 0.0


@dataclass(frozen=True)
class Wishes:
    """What the user asked for.

    home, nodes: kernel node ids, None where the choice is ours. per: "node" or "socket".
    min_bytes: smaller tensors are not copied. rehearse: number of pretend nodes, or 0.
    copy_home: home gets a replica too. heal: a primary that is not at home may be moved there.
    pin: the engine's threads are held on the nodes of their copies.
    budget: what the replicas of one copy may take, None for what there is. adapt: tokens that are
    counted before experts are copied, where not all fits; 0: none. strategy: one of
    launch/strategies.py, which takes it from here.
    """

    home: int | None = None
    nodes: frozenset[int] | None = None
    per: str = "node"
    min_bytes: int = DEFAULT_MIN_BYTES
    rehearse: int = 0
    copy_home: bool = False
    heal: bool = True
    pin: bool = False
    budget: Budget | None = None
    adapt: int = 0
    strategy: str = "auto"


@dataclass(frozen=True)
class Circumstances:
    """What else the plan depends on.

    caller_policy: the memory policy under which we were started, None when the kernel does not
    say. preload: the verdict on the target. home_variable: NUMAMIRROR_HOME, "" when unset.
    """

    caller_policy: Policy | None
    preload: Preload
    home_variable: str = ""


@dataclass(frozen=True)
class Plan:
    """What `run` is going to do.

    strategy: "mirror", "prefer" (policy only) or "none"; launch/strategies.py adds "shard",
    "bind", "interleave" and "observe". reason: why, or what it does, as a phrase.
    policy: the policy to set, None when none is; caller_policy: the one that is kept, or None.
    copies: one entry per copy of the weights; empty in a rehearsal, whose nodes are pretended.
    preload: entries to add to LD_PRELOAD.
    budget_bytes: what the replicas of one copy may take, None for what there is.
    adapt: tokens that are counted before experts are copied, 0 for none.
    affinity: CPUs that the child is restricted to, empty for no restriction of ours.
    choice: why this strategy, where it was chosen by us. intended: it is what was asked for or
    chosen, not what was left when that could not be. handed_over: variables by which an engine
    that mirrors by itself is told its home node. unheld: what the kernel refused of policy and
    affinity when they were set, or did not confirm.
    """

    strategy: str
    reason: str
    home: Home
    copies: tuple[Copy, ...]
    policy: Policy | None
    caller_policy: Policy | None
    preload: tuple[str, ...]
    min_bytes: int
    rehearse: int
    copy_home: bool
    heal: bool
    pin: bool
    budget_bytes: int | None
    notes: tuple[Notice, ...]
    adapt: int = 0
    affinity: frozenset[int] = frozenset()
    choice: Strategy | None = None
    intended: bool = False
    handed_over: tuple[tuple[str, str], ...] = ()
    unheld: tuple[Notice, ...] = ()

    @property
    def by_kernel_alone(self) -> bool:
        """What was asked for or chosen is all done by the policy and the affinity."""
        return self.intended and not self.uses_shim

    @property
    def uses_shim(self) -> bool:
        """The shim has something to do in the program."""
        by_policy = self.strategy == "interleave" and not self.preload
        return self.strategy in ("mirror", "shard", "interleave", "observe") and not by_policy

    @property
    def mirrors(self) -> bool:
        return self.strategy == "mirror"


def make_plan(machine: Machine, wishes: Wishes, circumstances: Circumstances) -> Plan:
    """Decide. Raises NumaMirrorError (exit 2), naming the nodes there are, for nodes that are
    unknown or not allowed."""
    environ = {"NUMAMIRROR_HOME": circumstances.home_variable}
    home = choose_home(machine, wishes.home, environ)
    nodes = choose_nodes(machine, wishes.nodes) if wishes.nodes else machine.mirror_nodes
    policy = circumstances.caller_policy
    notes = [Notice(text, level="info") for text in machine.notes if not _is_said(text)]

    notes += _affinity_notes(machine)
    nodes, policy_notes = _respect_bind(nodes, policy)
    home, home_notes = _place_home(machine, home, nodes, wishes, policy)
    notes += policy_notes + home_notes
    copies, idle = _divide(machine, nodes, wishes.per)
    notes += [Notice(f"node {node}: no CPU is nearest to it, it gets no copy") for node in idle]

    budget_bytes, budget_notes = _budget_bytes(machine, copies, wishes.budget)
    notes += budget_notes

    plan = Plan(
        strategy="mirror",
        reason="",
        home=home,
        copies=copies,
        policy=None,
        caller_policy=None if policy is None or policy.is_default else policy,
        preload=circumstances.preload.entries,
        min_bytes=wishes.min_bytes,
        rehearse=wishes.rehearse,
        copy_home=wishes.copy_home,
        heal=wishes.heal,
        pin=wishes.pin,
        budget_bytes=budget_bytes,
        notes=tuple(notes),
        adapt=wishes.adapt,
    )
    plan = _with_strategy(plan, machine, wishes, circumstances.preload)
    return _with_policy(plan, machine, policy)


def _is_said(note: str) -> bool:
    """The plan's own reason says it."""
    return note.endswith("nothing to mirror")


def _affinity_notes(machine: Machine) -> list[Notice]:
    """An affinity or cpuset under which we were started is kept, and named."""
    there: frozenset[int] = frozenset().union(*(node.cpus for node in machine.nodes))
    allowed: frozenset[int] = frozenset().union(*(node.allowed_cpus for node in machine.nodes))
    if allowed == there:
        return []
    what = f"CPUs {format_list(allowed)} of {format_list(there)} are allowed, kept"
    return [Notice(what, "set by the caller (taskset, numactl, cpuset or unit)", level="info")]


def _respect_bind(
    nodes: Sequence[int], policy: Policy | None
) -> tuple[tuple[int, ...], list[Notice]]:
    """The caller who binds memory to some nodes wants none on others: not of ours either."""
    if policy is None or policy.mode != "bind":
        return tuple(nodes), []
    kept = tuple(node for node in nodes if node in policy.nodes)
    left_out = [node for node in nodes if node not in kept]
    if not left_out:
        return kept, []
    which = f"node{'s' if len(left_out) > 1 else ''} {format_list(left_out)}"
    return kept, [
        Notice(
            f"no copy on {which}",
            f"policy {policy} set by the caller allows no memory there",
            "start it without numactl --membind (or NUMAPolicy=bind) to mirror",
        )
    ]


def _place_home(
    machine: Machine, home: Home, nodes: Sequence[int], wishes: Wishes, policy: Policy | None
) -> tuple[Home, list[Notice]]:
    """The home that holds under the caller's policy and the nodes that were chosen."""
    forced = _forced_home(policy)
    if wishes.home is not None:
        if wishes.nodes and wishes.home not in nodes:
            named = format_list(nodes)
            raise NumaMirrorError(
                f"--home {wishes.home}: not among the chosen nodes ({named})",
                hint=f"add it to --nodes, or choose one of {named}",
                exit_code=2,
            )
        if forced is not None and forced != wishes.home:
            return home, [
                Notice(
                    f"--home {wishes.home}: the primary will not lie there by itself",
                    f"policy {policy} set by the caller is kept",
                    f"start it without that policy, or with --home {forced}",
                )
            ]
        return home, []
    if forced is not None:
        return Home(forced, f"policy {policy} set by the caller puts the primary there"), []
    if home.node is None or not nodes or home.node in nodes:
        return home, []
    # NUMAMIRROR_HOME may name memory without CPUs; --nodes, being newer, beats it.
    if home != machine.home and not wishes.nodes:
        return home, []
    return _elect_among(machine, nodes), []


def _forced_home(policy: Policy | None) -> int | None:
    """The one node on which the caller's policy puts what the engine allocates."""
    if policy is None or policy.mode not in ("bind", "preferred") or len(policy.nodes) != 1:
        return None
    return min(policy.nodes)


def _elect_among(machine: Machine, nodes: Sequence[int]) -> Home:
    readers = replica_nodes(machine.nodes, nodes)
    voters = [
        gpu
        for gpu in machine.gpus
        if gpu.node is not None and readers.get(gpu.node, gpu.node) in nodes
    ]
    home = elect_home(tuple(nodes), readers, voters)
    return replace(home, reason=f"{home.reason}, among nodes {format_list(nodes)}")


def _divide(
    machine: Machine, nodes: Sequence[int], per: str
) -> tuple[tuple[Copy, ...], tuple[int, ...]]:
    """The copies, and the nodes that were left out since no CPU would read from them."""
    make = copies_per_socket if per == "socket" else copies_per_node
    copies = make(machine, nodes)
    read = tuple(copy for copy in copies if copy.cpus)
    idle = [node for copy in copies if not copy.cpus for node in copy.nodes]
    return read, tuple(idle)


def _budget_bytes(
    machine: Machine, copies: Sequence[Copy], budget: Budget | None
) -> tuple[int | None, list[Notice]]:
    """The budget in bytes. Pretend nodes are of the memory that all nodes have."""
    if budget is None or budget.bytes:
        return (None if budget is None else budget.bytes), []
    chosen = frozenset(node for copy in copies for node in copy.nodes)
    sizes = [n.mem_total for n in machine.nodes if n.mem_total and (n.id in chosen or not chosen)]
    if not sizes:
        what = f"--budget {budget.share * 100:g}%: left out"
        why = "the kernel does not say how much memory the nodes have"
        return None, [Notice(what, why, "give it in bytes, as in --budget 200GiB")]
    return int(budget.share * min(sizes)), []


def _with_strategy(plan: Plan, machine: Machine, wishes: Wishes, preload: Preload) -> Plan:
    """The best of mirror, prefer, none that is possible, with the reason."""
    nothing = _why_nothing_to_mirror(plan, machine, wishes)
    if wishes.rehearse:
        why_not = _why_not_preloaded(preload)
        if why_not:
            return _without_mirror(plan, "none", why_not, preload)
        pretended = f"rehearsal: {wishes.rehearse} pretend nodes on the memory there is"
        return replace(plan, reason=f"{pretended}, nothing gets faster", copies=())
    if nothing:
        strategy = "prefer" if _several_memory_nodes(machine) else "none"
        return replace(_without_mirror(plan, strategy, nothing, preload), preload=())
    if why_not := _why_not_preloaded(preload):
        return _without_mirror(plan, "prefer", why_not, preload)
    what = "sockets" if wishes.per == "socket" else "nodes"
    return replace(plan, reason=f"{len(plan.copies)} {what}, one copy each")


def _without_mirror(plan: Plan, strategy: str, reason: str, preload: Preload) -> Plan:
    notes = plan.notes if preload.notice is None else (*plan.notes, preload.notice)
    return replace(plan, strategy=strategy, reason=reason, notes=notes)


def _why_nothing_to_mirror(plan: Plan, machine: Machine, wishes: Wishes) -> str:
    if not machine.numa:
        return "this kernel exposes no NUMA nodes: nothing to mirror"
    if len(plan.copies) > _MOST_COPIES:
        return f"{len(plan.copies)} copies are more than {_MOST_COPIES}; choose fewer with --nodes"
    if len(plan.copies) > 1:
        return ""
    if len(machine.mirror_nodes) > 1 and wishes.nodes and len(wishes.nodes) == 1:
        return "--nodes names one node: nothing to mirror"
    if len(machine.mirror_nodes) > 1:
        return "one copy serves all CPUs: nothing to mirror"
    return "one node that has both CPUs and memory: nothing to mirror"


def _why_not_preloaded(preload: Preload) -> str:
    if preload.reaches_program and preload.entries:
        return ""
    return preload.obstacle


def _several_memory_nodes(machine: Machine) -> bool:
    return sum(node.can_hold_a_copy for node in machine.nodes) > 1


def _with_policy(plan: Plan, machine: Machine, caller: Policy | None) -> Plan:
    """MPOL_PREFERRED(home), where it does something and the caller has set nothing."""
    useful = plan.strategy != "none" and not plan.rehearse and _several_memory_nodes(machine)
    if not useful or plan.home.node is None or caller is None or not caller.is_default:
        return plan
    return replace(plan, policy=Policy("preferred", frozenset({plan.home.node})))
