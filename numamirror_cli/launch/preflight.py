"""All that is found out before the start: target, machine, circumstances, and the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from numamirror_cli.engine.foresight import divides_by_rows, foresee
from numamirror_cli.engine.preload import Preload, judge_preload
from numamirror_cli.engine.privileges import this_caller
from numamirror_cli.engine.shim import find_shim
from numamirror_cli.engine.target import Target, find_target
from numamirror_cli.launch.crowd import warn_of_crowd
from numamirror_cli.launch.engine_words import read_engine_words
from numamirror_cli.launch.hand_over import with_home_handed_over
from numamirror_cli.launch.host import Host, read_host
from numamirror_cli.launch.idle_options import note_on_idle_options
from numamirror_cli.launch.plan import Circumstances, Plan, Wishes, make_plan
from numamirror_cli.launch.policy import PolicyOutcome, read_caller_policy
from numamirror_cli.launch.strategies import AUTO, Evidence, with_strategy
from numamirror_cli.machine.busy import read_busyness, read_cpu_times
from numamirror_cli.machine.home import HOME_VARIABLE
from numamirror_cli.machine.model import Machine
from numamirror_cli.machine.read import read_machine
from numamirror_cli.memory.kernel import BALANCING_OFF
from numamirror_cli.memory.pages import may_ask_for_pages
from numamirror_cli.memory.policy import DEFAULT, probe
from numamirror_cli.memory.seccomp import say_deadly, try_our_calls
from numamirror_cli.notice import Notice
from numamirror_cli.plan.bandwidth import Bandwidth
from numamirror_cli.plan.layout import SHARD


@dataclass(frozen=True)
class Preflight:
    """Ready to start. caller: the policy under which we run, as the kernel says. evidence: what
    the strategy was chosen by."""

    command: tuple[str, ...]
    target: Target
    machine: Machine
    host: Host
    caller: PolicyOutcome
    plan: Plan
    evidence: Evidence


def prepare(
    command: Sequence[str],
    wishes: Wishes,
    root: Path,
    environ: Mapping[str, str],
    *,
    thorough: bool = False,
) -> Preflight:
    """Find out and decide; nothing is changed or started.

    root: where /sys and /proc are; under another one the plan is for that machine. thorough: look
    for the engine as `check` does, which may take a second. Raises
    NumaMirrorError: 127 or 126 for the program, 2 for nodes that there are not.
    """
    cpu_times = read_cpu_times(root)
    target = find_target(command, environ)
    machine = read_machine(root, environ=environ)
    host = read_host(root)
    ours = root == Path("/")
    deadly = try_our_calls().deadly if ours else ()
    if deadly:
        caller, preload = PolicyOutcome(None), Preload((), False, say_deadly(deadly))
    else:
        caller = read_caller_policy() if ours and machine.numa else PolicyOutcome(DEFAULT)
        preload = judge_preload(target, find_shim(environ), this_caller(), environ)
        if wishes.rehearse or len(machine.mirror_nodes) > 1:
            preload = foresee(command, target, preload, environ, thorough=thorough)
    circumstances = Circumstances(caller.policy, preload, environ.get(HOME_VARIABLE, ""))
    evidence = Evidence(
        read_engine_words(target.arguments),
        _bandwidth(machine, root),
        caller.policy,
        preload.entries if preload.reaches_program else (),
        _refused_calls(machine) if ours and wishes.strategy == AUTO and not deadly else frozenset(),
    )
    plan = make_plan(machine, wishes, circumstances)
    plan = _with_strategy(
        plan, machine, wishes, evidence, lambda: divides_by_rows(command, environ)
    )
    plan = with_home_handed_over(plan, preload.own_mirror, environ)
    crowd = warn_of_crowd(plan, read_busyness(cpu_times, root))
    idle = note_on_idle_options(plan, wishes)
    notes = (caller.notice, idle, _balancing(host, plan), crowd)
    plan = replace(plan, notes=(*plan.notes, *(note for note in notes if note is not None)))
    return Preflight(tuple(command), target, machine, host, caller, plan, evidence)


def _refused_calls(machine: Machine) -> frozenset[str]:
    """What is refused to this process of the calls that place memory, where there is something to
    place."""
    if len(machine.mirror_nodes) < 2:
        return frozenset()
    refused = {refusal.syscall for refusal in probe(machine.mirror_nodes[0])}
    return frozenset(refused if may_ask_for_pages() else {*refused, "move_pages"})


def _with_strategy(
    plan: Plan, machine: Machine, wishes: Wishes, evidence: Evidence, may_shard: Callable[[], bool]
) -> Plan:
    """The plan with the strategy that was asked for or is best. may_shard: a look into the engine,
    which takes a second, and so only where shard would be taken."""
    chosen = with_strategy(plan, machine, wishes.strategy, evidence)
    if chosen.choice is None or chosen.choice.name != SHARD or may_shard():
        return chosen
    return with_strategy(plan, machine, wishes.strategy, replace(evidence, divides_rows=False))


def _bandwidth(machine: Machine, root: Path) -> Bandwidth | None:
    """What was measured on this machine, where there is something to choose."""
    if len(machine.mirror_nodes) < 2:
        return None
    # Not before it is needed: the child is waiting to be started.
    from numamirror_cli.plan.bench_result import bandwidth_of, identify
    from numamirror_cli.plan.bench_store import load_for

    result = load_for(identify(machine, root))
    return None if result is None else bandwidth_of(result)


def _balancing(host: Host, plan: Plan) -> Notice | None:
    """NUMA balancing unmaps pages to see who touches them, and moves what lies well."""
    if not host.numa_balancing or plan.strategy == "none" or plan.rehearse:
        return None
    return Notice(
        f"kernel.numa_balancing is {host.numa_balancing}",
        "the kernel keeps unmapping and moving pages that are placed already",
        BALANCING_OFF,
    )
