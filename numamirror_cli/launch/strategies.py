"""The strategy of a run: the one asked for, or the one that fits machine, model and threads.

Works on a plan that would mirror; what stood in the way of that is in the plan already. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from numamirror_cli.figures import with_verb
from numamirror_cli.launch.copies import Copy, copies_per_node
from numamirror_cli.launch.engine_words import EngineWords
from numamirror_cli.launch.plan import Plan
from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.machine.model import Machine
from numamirror_cli.memory.policy import Policy
from numamirror_cli.notice import Notice
from numamirror_cli.plan.bandwidth import Bandwidth
from numamirror_cli.plan.cores import cores_by_mirror_node
from numamirror_cli.plan.layout import BIND, INTERLEAVE, MIRROR, NONE, PREFER, SHARD
from numamirror_cli.plan.predict import FIXED_CPU, FIXED_WITH_GPU
from numamirror_cli.plan.ram import available_bytes
from numamirror_cli.plan.strategy import Situation, choose_strategy

AUTO, OBSERVE = "auto", "observe"
STRATEGIES = (AUTO, MIRROR, SHARD, PREFER, INTERLEAVE, BIND, NONE)

# The KV cache and other buffers are not known here: that much of the weights is asked for besides.
_BESIDES = 1 / 8


@dataclass(frozen=True)
class Evidence:
    """What the choice rests on. caller_policy: as in Circumstances. shim: what to add to
    LD_PRELOAD, empty where it would not reach the program. refused: policy calls that are turned
    down. divides_rows: threads can be held to their rows in the program, as far as is known."""

    engine: EngineWords
    bandwidth: Bandwidth | None
    caller_policy: Policy | None
    shim: tuple[str, ...] = ()
    refused: frozenset[str] = frozenset()
    divides_rows: bool = True


def with_strategy(plan: Plan, machine: Machine, wished: str, evidence: Evidence) -> Plan:
    """The plan with that strategy, "auto" for the best one. A strategy that cannot be carried out
    is replaced by what the plan had, with a notice that says why."""
    if wished == MIRROR:
        return plan
    if wished == SHARD:
        return _sharded(plan)
    if wished == OBSERVE:
        return _observed(plan, machine, evidence)
    if plan.rehearse:
        return plan if wished == AUTO else _refused(plan, wished, "a rehearsal has no real nodes")
    if wished == AUTO:
        return _chosen(plan, machine, evidence) if plan.mirrors else plan
    if wished == PREFER:
        return _without_shim(plan, PREFER, "memory from the home node while it has some")
    if wished == NONE:
        return replace(_without_shim(plan, NONE, "nothing is placed"), policy=None)
    if wished == BIND:
        return _bound(plan, machine, evidence)
    return _interleaved(plan, machine, evidence)


def _sharded(plan: Plan) -> Plan:
    """Rows placed with their readers: needs what a mirror needs, but for the room."""
    if not plan.mirrors:
        return _refused(plan, SHARD, plan.reason)
    nodes = f"{len(plan.copies) or plan.rehearse} nodes"
    reason = f"each row on the node of the thread that reads it, {nodes}, one copy in all"
    return replace(plan, strategy=SHARD, reason=reason, intended=True)


def _observed(plan: Plan, machine: Machine, evidence: Evidence) -> Plan:
    """All nodes are looked at, also those that a policy of the caller leaves no memory on, and a
    machine's only one."""
    copies = () if plan.rehearse else copies_per_node(machine, machine.mirror_nodes)
    if not evidence.shim or not (copies or plan.rehearse):
        return _refused(plan, OBSERVE, plan.reason)
    return replace(
        plan,
        strategy=OBSERVE,
        reason="observed: nothing is copied or moved",
        copies=copies,
        preload=evidence.shim,
        policy=None,
        intended=True,
    )


def _refused(plan: Plan, wished: str, why: str) -> Plan:
    option = "--observe" if wished == OBSERVE else f"--strategy {wished}"
    note = Notice(f"{option} is not possible", why)
    return replace(plan, notes=(*plan.notes, note))


def _without_shim(plan: Plan, strategy: str, reason: str) -> Plan:
    return replace(plan, strategy=strategy, reason=reason, preload=(), copies=(), intended=True)


def _chosen(plan: Plan, machine: Machine, evidence: Evidence) -> Plan:
    if any(len(copy.nodes) > 1 for copy in plan.copies):
        return plan  # --per socket asks for copies
    if plan.budget_bytes is not None or plan.adapt:
        return plan  # so do --budget and --adapt, which say how many of them
    situation = _situation(plan, machine, evidence)
    choice = choose_strategy(situation)
    if choice.name == BIND:
        plan = _bound(plan, machine, evidence)
    elif choice.name == SHARD:
        plan = _sharded(plan)
    elif choice.name == INTERLEAVE:
        plan = _interleaved(plan, machine, evidence)
    elif choice.name == PREFER:
        plan = _without_shim(plan, PREFER, choice.because)
    elif choice.name == NONE:
        plan = replace(_without_shim(plan, NONE, choice.because), policy=None)
    return replace(plan, choice=choice)


def _situation(plan: Plan, machine: Machine, evidence: Evidence) -> Situation:
    nodes = [copy.nodes[0] for copy in plan.copies]
    cores = cores_by_mirror_node(machine)
    there = {node: available_bytes(machine.node(node)) for node in nodes}
    home = plan.home.node if plan.home.node in nodes else nodes[0]
    engine, weights = evidence.engine, evidence.engine.model_bytes
    primary = None if weights is None else weights + int(weights * _BESIDES)
    others = [room for node, room in there.items() if node != home]
    spilled = max(0, (primary or 0) - there[home])
    part = max(0, min(others, default=0) - spilled) / weights if weights else 1.0
    return Situation(
        cores={node: cores.get(node, 0) for node in nodes},
        there=there,
        home=home,
        primary=primary,
        replica=weights,
        partial_coverage=min(1.0, part),
        threads=engine.threads,
        refused=_all_refused(evidence),
        possible=_possible(plan, evidence),
        bandwidth=evidence.bandwidth,
        fixed=FIXED_WITH_GPU if engine.uses_gpus else FIXED_CPU,
    )


# Of memory/policy.py's probe: without them nothing can be placed by policy.
_POLICY_CALLS = ("get_mempolicy", "set_mempolicy", "mbind")


def _all_refused(evidence: Evidence) -> str:
    return ", ".join(_POLICY_CALLS) if evidence.refused.issuperset(_POLICY_CALLS) else ""


def _possible(plan: Plan, evidence: Evidence) -> frozenset[str]:
    """A mirror is possible also without mbind: replicas are filled by threads on their nodes."""
    possible = {MIRROR, PREFER, NONE}
    if _may_set_policy(plan, evidence) and "set_mempolicy" not in evidence.refused:
        possible.add(BIND)
    if not evidence.refused:
        possible.add(INTERLEAVE)
        if evidence.divides_rows:
            possible.add(SHARD)
    return frozenset(possible)


def _may_set_policy(plan: Plan, evidence: Evidence) -> bool:
    return plan.caller_policy is None and evidence.caller_policy is not None


def _bound(plan: Plan, machine: Machine, evidence: Evidence) -> Plan:
    """All threads and all memory on the home node."""
    if not _may_set_policy(plan, evidence):
        return _refused(plan, BIND, _why_no_policy(plan))
    home = _home_copy(plan)
    if home is None:
        return _refused(plan, BIND, plan.reason)
    named = format_list(home.nodes)
    reason = f"bound to node{'s' if len(home.nodes) > 1 else ''} {named}, threads and memory"
    bound = _without_shim(plan, BIND, reason)
    return replace(
        bound,
        policy=Policy("bind", frozenset(home.nodes)),
        affinity=home.cpus,
        notes=(*plan.notes, *_notes_on_bind(home, machine, evidence.engine)),
    )


def _home_copy(plan: Plan) -> Copy | None:
    return next((copy for copy in plan.copies if plan.home.node in copy.nodes), None)


def _notes_on_bind(home: Copy, machine: Machine, engine: EngineWords) -> list[Notice]:
    nodes = [machine.node(node) for node in home.nodes]
    notes = []
    all_cores = [core for node in machine.nodes for core in node.cores]
    cores = sum(1 for core in all_cores if core & home.cpus)
    left = with_verb(cores, "core")
    if 0 < cores < len(all_cores) and (engine.threads or cores + 1) > cores:
        given = f"-t {engine.threads}" if engine.threads else "no -t"
        notes.append(
            Notice(
                f"the engine is started with {given}",
                f"only {left} left to it, and threads that share a core wait for each other",
                f"give it -t {cores}",
            )
        )
    if (engine.model_bytes or 0) > sum(map(available_bytes, nodes)):
        notes.append(
            Notice(
                "the model is larger than what is free there",
                "under bind the kernel ends the program when that is used up",
                "use --strategy prefer, or a larger node with --home",
            )
        )
    return notes


def _interleaved(plan: Plan, machine: Machine, evidence: Evidence) -> Plan:
    """The weights alone, by the shim. Where it does not reach, the whole process by its policy,
    but not where a GPU's pinned buffers would be spread too."""
    nodes = sorted(node for copy in plan.copies for node in copy.nodes)
    if len(nodes) < 2:
        return _refused(plan, INTERLEAVE, plan.reason)
    if plan.mirrors:
        reason = f"weights are to be spread over nodes {format_list(nodes)}, one copy"
        return replace(plan, strategy=INTERLEAVE, reason=reason, intended=True)
    if any(gpu.votes for gpu in machine.gpus) or evidence.engine.uses_gpus:
        why = f"{plan.reason}, and the whole process is not spread where a GPU pins its buffers"
        return _refused(plan, INTERLEAVE, why)
    if not _may_set_policy(plan, evidence):
        return _refused(plan, INTERLEAVE, _why_no_policy(plan))
    reason = f"all memory of the process spread over nodes {format_list(nodes)}: {plan.reason}"
    spread = _without_shim(plan, INTERLEAVE, reason)
    return replace(spread, policy=Policy("interleave", frozenset(nodes)))


def _why_no_policy(plan: Plan) -> str:
    if plan.caller_policy is not None:
        return f"policy {plan.caller_policy} set by the caller is kept"
    return "the kernel does not say which policy stands"
