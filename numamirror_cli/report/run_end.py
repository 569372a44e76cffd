"""The end of a run: tables, a verdict, and the JSON document."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numamirror_cli.figures import percent, with_verb
from numamirror_cli.launch.host import Host
from numamirror_cli.launch.plan import Plan
from numamirror_cli.launch.session import Outcome
from numamirror_cli.launch.snapshots import Snapshot
from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.notice import Notice
from numamirror_cli.plan.predict import FIXED_CPU
from numamirror_cli.report.run import (
    NOTHING_TO_MIRROR,
    notice_line,
    stderr_may_be_gone,
    write_message,
)
from numamirror_cli.report.units import part_of, size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from numamirror_cli.memory.status_page import MirrorStatus
    from numamirror_cli.plan.predict import Reader
    from numamirror_cli.report.verdict import Verdict


def print_report(
    plan: Plan, outcome: Outcome, machine: Reader | None = None, fixed: float = FIXED_CPU
) -> None:
    """Tables and verdict on stderr: where the pages lay at the last look, what was mirrored or
    observed. machine, fixed: as in plan/predict.py, for what a strategy would make of it."""
    from rich.console import Group
    from rich.text import Text

    from numamirror_cli.report.console import message_console
    from numamirror_cli.report.folded import Folded
    from numamirror_cli.report.placement import render_placement
    from numamirror_cli.report.verdict import render_verdicts

    if sys.stderr is None:
        return
    parts: list[RenderableType] = []
    if shot := outcome.snapshot:
        parts.append(render_placement(shot.placement, shot.pid, shot.command))
        parts.append(Folded(f"({moment(shot)})"))
    elif problem := outcome.snapshot_problem:
        parts.append(Folded(f"Where its memory lay could not be seen: {problem}"))
    if outcome.mirror is not None and outcome.mirror.gemm_bytes:
        parts += [Text(), _render_reads(plan, outcome.mirror, machine, fixed)]
    if not _nothing_to_gain(plan):  # else the plan's own line has said it all
        parts += [Text(), render_verdicts(end_verdicts(plan, outcome))]
    with stderr_may_be_gone():
        console = message_console()
        with console.capture() as capture:
            console.print(Group(*parts))
        write_message("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def _render_reads(
    plan: Plan, status: MirrorStatus, machine: Reader | None, fixed: float
) -> RenderableType:
    from numamirror_cli.report.mirror import render_mirror
    from numamirror_cli.report.observe import render_observed

    if plan.strategy == "observe":
        return render_observed(status, machine, time.time(), fixed)
    return render_mirror(status, ended=True)


def moment(shot: Snapshot) -> str:
    """ "3.2 s after start, when replicas were built"."""
    after = f"{shot.t:.1f} s after start"
    return f"{after}, {shot.cause}" if shot.cause else after


def summary_lines(plan: Plan, outcome: Outcome) -> list[str]:
    """Coverage of a mirror, and verdicts, a line each."""
    lines = []
    status = outcome.mirror
    if status is not None and status.gemm_bytes and plan.mirrors:
        covered = part_of(status.mirrored_bytes, status.gemm_bytes)
        line = f"coverage {percent(status.coverage)} ({covered} that GEMM reads)"
        if status.coverage < 1 and status.coverage_read is not None:
            line += f", {percent(status.coverage_read)} by reads"
        lines.append(line)
    for verdict in end_verdicts(plan, outcome):
        lines.append(verdict.text + (f" ({verdict.remedy})" if verdict.remedy else ""))
    return lines


def is_mirrored(outcome: Outcome) -> bool:
    """Whether any weights had copies in this run."""
    return outcome.mirror is not None and outcome.mirror.mirrored_bytes > 0


def end_verdicts(plan: Plan, outcome: Outcome) -> list[Verdict]:
    """What to make of it, in one to three sentences."""
    # Imported here and below: rich is not needed before the child has ended.
    from numamirror_cli.report.verdict import BAD, OK, WARN, Verdict

    if plan.by_kernel_alone:
        held = Verdict(OK, f"{plan.strategy}: {plan.reason}")
        return [_unheld(plan.strategy, notice) for notice in plan.unheld] or [held]
    if not plan.uses_shim:
        if _nothing_to_gain(plan):
            return [Verdict(OK, plan.reason)]
        return [Verdict(BAD, f"NOT mirrored: {plan.reason}")]
    if not outcome.handshake:
        return [_no_handshake(outcome, _not_done(plan.strategy))]
    if outcome.mirror is None:
        why = outcome.mirror_problem or "the shim gave no status page"
        return [Verdict(BAD, f"{_not_done(plan.strategy)}, as far as can be told: {why}")]
    if outcome.mirror.state == "waiting":
        return [_no_engine()]
    from numamirror_cli.report.mirror import judge_mirror

    if plan.strategy == "observe":
        return [_observed(outcome.mirror)]
    verdicts = list(judge_mirror(outcome.mirror))
    if outcome.mirrors > 1:
        text = f"{outcome.mirrors} processes had weights; this is the one with most"
        verdicts.append(Verdict(WARN, text))
    return verdicts


ASK_CHECK = "numamirror check -- PROGRAM says which engine it finds, and whether a shim reaches it"


def _unheld(strategy: str, notice: Notice) -> Verdict:
    """What stands in the place of "bind: bound to node 0"."""
    from numamirror_cli.report.verdict import WARN, Verdict

    what = notice_line(replace(notice, remedy=""))
    return Verdict(WARN, f"{strategy}, but {what}", notice.remedy)


def _nothing_to_gain(plan: Plan) -> bool:
    return not (plan.uses_shim or plan.rehearse) and plan.reason.endswith(NOTHING_TO_MIRROR)


def _not_done(strategy: str) -> str:
    """In the strategy's own word: "NOT mirrored"."""
    done = {"shard": "sharded", "interleave": "interleaved", "observe": "observed"}
    return f"NOT {done.get(strategy, 'mirrored')}"


def _no_handshake(outcome: Outcome, not_done: str) -> Verdict:
    """No hello came. If the process was looked at, it is known whether the shim was in it."""
    from numamirror_cli.report.verdict import BAD, Verdict

    said = f"{not_done}: no handshake from the shim"
    if outcome.ignored:
        ignored = with_verb(outcome.ignored, "datagram", "was", "were")
        said += f" ({ignored} not believed)"
    remedy = "see whether a wrapper drops LD_PRELOAD, or the engine is linked statically"
    shot = outcome.snapshot
    if shot is None:
        why = "no engine that it knows ran in the program, or it was not loaded into it"
        return Verdict(BAD, f"{said}: {why}", ASK_CHECK)
    if shot.has_shim and shot.own_filters:
        why = (
            "the program filters its own system calls (seccomp), and the shim keeps out of its way"
        )
        return Verdict(BAD, f"{said}: {why}")
    if shot.has_shim:
        return Verdict(
            BAD,
            f"{said}: it is loaded, and no engine that it knows runs in the program",
            ASK_CHECK,
        )
    return Verdict(BAD, f"{said}: it was not loaded into the program", remedy)


def _observed(status: MirrorStatus) -> Verdict:
    """What was seen is said whatever it was: nothing was asked for that could have failed."""
    from numamirror_cli.report.verdict import OK, Verdict

    if status.locality is None:
        return Verdict(OK, "observed: no weights were read")
    pretend = " (pretend nodes)" if status.rehearsal else ""
    text = f"observed: {percent(status.locality)} of {size(status.read_bytes)} read from own memory"
    return Verdict(OK, text + pretend)


def _no_engine() -> Verdict:
    from numamirror_cli.report.verdict import BAD, Verdict

    text = "NOT mirrored: an engine was loaded, and the shim saw it use no weights on the CPU"
    remedy = (
        "as it should be with all layers on GPUs; else its libraries bind past the shim "
        "(RTLD_DEEPBIND, -Bsymbolic)"
    )
    return Verdict(BAD, text, remedy)


def plan_json(
    plan: Plan, command: Sequence[str], program: str, environment: Mapping[str, str]
) -> dict[str, Any]:
    """The `plan` object."""
    return {
        "command": list(command),
        "program": program,
        "strategy": plan.strategy,
        "reason": plan.reason,
        "home": {"node": plan.home.node, "reason": plan.home.reason},
        "copies": [
            {"nodes": list(copy.nodes), "cpus": format_list(copy.cpus)} for copy in plan.copies
        ],
        "choice": _choice_json(plan),
        "policy": None if plan.policy is None else str(plan.policy),
        "affinity": format_list(plan.affinity) or None,
        "caller_policy": None if plan.caller_policy is None else str(plan.caller_policy),
        "rehearsal": plan.rehearse,
        "copy_home": plan.copy_home,
        "heal": plan.heal,
        "pin": plan.pin,
        "budget_bytes": plan.budget_bytes,
        "adapt": plan.adapt,
        "min_bytes": plan.min_bytes,
        "environment": dict(environment),
        "notes": [
            {"level": note.level, "what": note.what, "why": note.why, "remedy": note.remedy}
            for note in plan.notes
        ],
    }


def _choice_json(plan: Plan) -> dict[str, str] | None:
    choice = plan.choice
    if choice is None:
        return None
    return {"because": choice.because, "would_change": choice.would_change}


def run_json(
    plan_object: Mapping[str, Any],
    plan: Plan,
    host: Host,
    policy: str | None,
    outcome: Outcome | None,
) -> dict[str, Any]:
    """The document of `run --json`; without an outcome, what is known before the start.

    policy: what the kernel said after the policy was set, None when it was not asked.
    """
    return {
        "schema": 1,
        "plan": plan_object,
        "policy": policy,
        "numa_balancing": host.numa_balancing,
        "kernel": host.kernel,
        "child": None if outcome is None else _child_json(outcome),
        "mirror": None if outcome is None else _mirror_json(outcome),
        "placement": None if outcome is None else _placement_json(outcome),
        "events": [] if outcome is None else _events_json(outcome),
        "verdict": [] if outcome is None else _verdict_json(plan, outcome),
    }


def _child_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "pid": outcome.pid,
        "exit_code": outcome.ending.exit_code,
        "signal": outcome.ending.signal,
        "seconds": round(outcome.seconds, 3),
    }


def _mirror_json(outcome: Outcome) -> dict[str, Any] | None:
    from numamirror_cli.report.mirror import mirror_json

    return None if outcome.mirror is None else mirror_json(outcome.mirror)


def _placement_json(outcome: Outcome) -> dict[str, Any] | None:
    from numamirror_cli.report.placement import placement_json

    shot = outcome.snapshot
    if shot is None:
        return None
    return {
        "t": round(shot.t, 3),
        "cause": shot.cause,
        "pid": shot.pid,
        "command": shot.command,
        "placement_bytes": placement_json(shot.placement),
    }


def _events_json(outcome: Outcome) -> list[dict[str, Any]]:
    # The kernel's word on who sent it, not the sender's.
    return [{**event.data, "t": round(event.t, 3), "pid": event.pid} for event in outcome.events]


def _verdict_json(plan: Plan, outcome: Outcome) -> list[dict[str, str]]:
    from numamirror_cli.report.verdict import verdict_json

    return verdict_json(end_verdicts(plan, outcome))
