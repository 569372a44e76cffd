"""`numamirror run`: start a program with its weights placed."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from numamirror_cli.commands.options import read_budget, read_node_list, read_size
from numamirror_cli.commands.shared import (
    OUTPUT_FILE,
    home_option,
    program_argument,
    verbose_option,
)
from numamirror_cli.errors import NumaMirrorError, described, unwritable
from numamirror_cli.launch.affinity import inherit_affinity
from numamirror_cli.launch.child import take_our_place
from numamirror_cli.launch.environment import child_environment, planned_environment
from numamirror_cli.launch.plan import DEFAULT_MIN_BYTES, MOST_ADAPT_TOKENS, Budget, Wishes
from numamirror_cli.launch.policy import inherit_policy
from numamirror_cli.launch.preflight import Preflight, prepare
from numamirror_cli.launch.session import Outcome, Session
from numamirror_cli.launch.strategies import AUTO, OBSERVE, STRATEGIES
from numamirror_cli.machine.archive import open_root
from numamirror_cli.notice import Notice
from numamirror_cli.output import is_stream, write_whole
from numamirror_cli.plan.cores import cores_by_mirror_node
from numamirror_cli.plan.predict import FIXED_CPU, FIXED_WITH_GPU, Reader
from numamirror_cli.quoting import printable
from numamirror_cli.report.live import LiveReport
from numamirror_cli.report.run import (
    dry_run_lines,
    notice_line,
    plan_lines,
    say,
    verbose_lines,
)
from numamirror_cli.report.run_end import (
    ASK_CHECK,
    is_mirrored,
    plan_json,
    print_report,
    run_json,
    summary_lines,
)

_EPILOG = """\b
Exit status: the program's own, or 128+N when signal N ended it; 2 for bad
usage, before anything is started; 125 when --require was not met, or
numamirror itself failed where it was given; 126 when the program cannot be
run; 127 when there is no such program.
"""


@click.command(
    "run",
    context_settings={"allow_interspersed_args": False},
    epilog=_EPILOG,
    no_args_is_help=True,
)
@click.option(
    "--strategy",
    type=click.Choice(STRATEGIES),
    default=AUTO,
    show_default=True,
    help="What to do with the weights; auto chooses, says why and what would change it.",
)
@home_option
@click.option(
    "--nodes",
    callback=read_node_list,
    metavar="LIST",
    help="Nodes that get a copy, such as 0,2-3.  [default: all that have CPUs and memory]",
)
@click.option(
    "--per",
    type=click.Choice(["node", "socket"]),
    default="node",
    show_default=True,
    help="One copy for each node, or for each socket, over whose nodes its replica is spread.",
)
@click.option(
    "--min-size",
    callback=read_size,
    default=f"{DEFAULT_MIN_BYTES >> 20}MiB",
    show_default=True,
    metavar="SIZE",
    help="Smaller tensors are not copied.",
)
@click.option(
    "--budget",
    callback=read_budget,
    metavar="SIZE|PERCENT",
    help="What the replicas of one copy may take: a size, or a share of all memory of the "
    "smallest node that gets a copy; what a token reads most of comes first.  Asks for a mirror, "
    "as --adapt does.  "
    "[default: what is free]",
)
@click.option(
    "--adapt",
    type=click.IntRange(1, MOST_ADAPT_TOKENS),
    metavar="TOKENS",
    help="When not all fits: copy experts only after so many tokens, and then those that were "
    "read most, each for itself.  A few hundred tell; prompts count too.",
)
@click.option(
    "--observe",
    is_flag=True,
    help="Copy and move nothing; count what is read from where (numamirror observe).",
)
@click.option("--copy-home", is_flag=True, help="Give the home node a replica too.")
@click.option(
    "--pin",
    is_flag=True,
    help="Hold the engine's threads on the nodes of their copies, as many on each as it has "
    "physical cores in proportion; SMT siblings only when cores are too few.",
)
@click.option(
    "--no-heal", is_flag=True, help="Leave a primary that is not on the home node where it is."
)
@click.option(
    "--rehearse",
    type=click.IntRange(2, 8),
    metavar="N",
    help="Take the whole data path with N pretend nodes (2 to 8); nothing gets faster.",
)
@click.option(
    "--require",
    type=click.Choice(["mirror"]),
    help="Exit 125 instead of running without a mirror.",
)
@click.option(
    "--report",
    type=click.Choice(["full", "summary", "none"]),
    default="full",
    show_default=True,
    help="What to print at the end, on stderr.",
)
@click.option(
    "--json",
    "json_file",
    type=OUTPUT_FILE,
    metavar="FILE",
    help="Write the plan, the events and the result to FILE.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan and the environment; start nothing.")
@click.option(
    "--root",
    type=click.Path(exists=True, path_type=Path),
    metavar="DIR|FILE.tar.xz",
    help="With --dry-run: plan for the machine of this dump.  [env: NUMAMIRROR_ROOT]",
)
@verbose_option
@program_argument
def command(
    words: tuple[str, ...],
    strategy: str,
    home: int | None,
    nodes: frozenset[int] | None,
    per: str,
    min_size: int,
    budget: Budget | None,
    adapt: int | None,
    observe: bool,
    copy_home: bool,
    pin: bool,
    no_heal: bool,
    rehearse: int | None,
    require: str | None,
    report: str,
    json_file: Path | None,
    dry_run: bool,
    root: Path | None,
    verbose: bool,
) -> None:
    """Start PROGRAM with its weights placed: home node, memory policy, mirror.

    PROGRAM is neither changed nor rebuilt, and it always starts: what cannot be done is said in
    one line on stderr and left out. stdin and stdout are PROGRAM's alone.
    """
    strategy = _chosen_strategy(strategy, observe, require)
    wishes = Wishes(
        home,
        nodes,
        per,
        min_size,
        rehearse or 0,
        copy_home,
        heal=not no_heal,
        pin=pin,
        budget=budget,
        adapt=adapt or 0,
        strategy=strategy,
    )
    # Whoever waits for a plan, or must have a mirror, has the time for a thorough look.
    thorough = dry_run or require is not None
    chosen_root = _chosen_root(root, dry_run)
    this_machine = chosen_root == Path("/")
    opened = contextlib.nullcontext(chosen_root) if this_machine else open_root(chosen_root)
    guard = functools.partial(_nothing_keeps_it_from_starting, words, wanted=not thorough)
    with guard(), opened as machine_root:
        ready = prepare(words, wishes, machine_root, os.environ, thorough=thorough)
    if require and not ready.plan.mirrors:
        _say_notices(ready.plan.notes)
        raise NumaMirrorError(
            f"--require mirror: not started: {ready.plan.reason}",
            hint="numamirror doctor -- PROGRAM says what to change; or leave out --require",
            exit_code=125,
        )
    if dry_run:
        _show_plan(ready, json_file)
        return
    with guard():
        running = _start(ready, json_file, verbose)
    outcome = _finish(running, report)
    if require and not is_mirrored(outcome) and outcome.ending.status == 0:
        raise NumaMirrorError(
            "--require mirror: nothing was mirrored in this run", hint=ASK_CHECK, exit_code=125
        )
    sys.exit(outcome.ending.status)


@contextlib.contextmanager
def _nothing_keeps_it_from_starting(words: Sequence[str], *, wanted: bool) -> Iterator[None]:
    """A fault of ours before the start: the program takes our place, and runs without us. Where
    that is not wanted, it is not started, which is exit 125."""
    try:
        yield
    except (NumaMirrorError, click.ClickException):
        raise
    except Exception as fault:
        if not wanted:
            raise NumaMirrorError(
                f"not started: {described(fault)}",
                hint="without --require and --dry-run it is started all the same, without us",
                exit_code=125,
            ) from fault
        say(f"the program is started without us, nothing is mirrored: {described(fault)}")
        take_our_place(Path(shutil.which(words[0]) or words[0]), words, os.environ)


def _chosen_strategy(strategy: str, observe: bool, require: str | None) -> str:
    """--observe and --require name a strategy too; none may contradict another."""
    wanted = OBSERVE if observe else require
    if wanted is None:
        return strategy
    if strategy not in (AUTO, wanted) or (observe and require):
        other = f"--strategy {strategy}" if strategy != AUTO else f"--require {require}"
        what = "--observe" if observe else f"--require {require}"
        raise NumaMirrorError(
            f"{what} and {other} exclude one another", hint="leave one of them out", exit_code=2
        )
    return wanted


def _chosen_root(option: Path | None, dry_run: bool) -> Path:
    variable = os.environ.get("NUMAMIRROR_ROOT")
    if option is not None and not dry_run:
        raise NumaMirrorError(
            f"--root {option}: a program is started on this machine and no other",
            hint="add --dry-run to see the plan for the machine of that dump",
            exit_code=2,
        )
    if variable and not dry_run:
        say("NUMAMIRROR_ROOT is ignored: a program is placed on this machine")
    if not dry_run:
        return Path("/")
    return option or Path(variable or "/")


def _show_plan(ready: Preflight, json_file: Path | None) -> None:
    """Print the plan; stdout is ours, since nothing is started."""
    environment = planned_environment(ready.plan, events="")
    if ready.plan.preload:
        environment["LD_PRELOAD"] = child_environment(ready.plan, "", os.environ)["LD_PRELOAD"]
    for line in dry_run_lines(ready.plan, ready.command, str(ready.target.path), environment):
        click.echo(printable(line))
    if json_file is not None:
        document = run_json(_plan_object(ready, environment), ready.plan, ready.host, None, None)
        _write_plan(json_file, document)


@dataclass(frozen=True)
class _Running:
    """A program that was started. record: the --json file, None without one or where it cannot be
    written; plan_object, policy: for it."""

    ready: Preflight
    session: Session
    live: LiveReport
    record: Path | None
    plan_object: dict[str, Any]
    policy: str | None


def _start(ready: Preflight, json_file: Path | None, verbose: bool) -> _Running:
    """Set policy and affinity, and start the program."""
    policy = inherit_policy(ready.plan.policy) if ready.plan.policy else ready.caller
    refused = policy.notice if ready.plan.policy else None
    loose = inherit_affinity(ready.plan.affinity) if ready.plan.affinity else None
    plan = replace(ready.plan, unheld=tuple(filter(None, (refused, loose))))
    ready = replace(ready, plan=plan)
    for line in plan_lines(plan, str(policy.policy) if plan.policy and policy.policy else ""):
        say(line)
    _say_notices((*plan.notes, *plan.unheld))
    reasons = frozenset(note.why for note in plan.notes if note.why)
    live = LiveReport(bool(plan.rehearse), verbose, copying=plan.mirrors, reasons=reasons)
    nodes = [node.id for node in ready.machine.nodes]
    session = Session(nodes, plan.preload[-1] if plan.preload else "", live.show)
    environment = child_environment(plan, session.events_name, os.environ)
    plan_object = _plan_object(ready, planned_environment(plan, session.events_name))
    policy_text = None if policy.policy is None else str(policy.policy)
    if verbose:
        for line in verbose_lines(plan, ready.target.chain, ready.target.unread, environment):
            say(line)
    if json_file is not None:
        document = run_json(plan_object, plan, ready.host, policy_text, None)
        if not _write_before(json_file, document):
            json_file = None
    session.start(ready.target.path, ready.command, environment)
    return _Running(ready, session, live, json_file, plan_object, policy_text)


def _finish(running: _Running, report: str) -> Outcome:
    """Watch it to its end, and report. Its status is ours, whatever becomes of the report."""
    ready = running.ready
    try:
        outcome = running.session.watch()
    finally:
        running.live.stop()
    if outcome.fault:
        say(f"the program was not watched to its end: {outcome.fault}")
    try:
        _report(ready, outcome, report)
        if running.record is not None:
            document = run_json(
                running.plan_object, ready.plan, ready.host, running.policy, outcome
            )
            _write_after(running.record, document)
    except Exception as fault:
        say(f"the report could not be made: {described(fault)}")
    return outcome


def _say_notices(notices: Sequence[Notice]) -> None:
    for notice in notices:
        say(notice_line(notice))


def _plan_object(ready: Preflight, environment: dict[str, str]) -> dict[str, Any]:
    return plan_json(ready.plan, ready.command, str(ready.target.path), environment)


def _report(ready: Preflight, outcome: Outcome, report: str) -> None:
    if report == "full":
        fixed = FIXED_WITH_GPU if ready.evidence.engine.uses_gpus else FIXED_CPU
        print_report(ready.plan, outcome, _reader(ready), fixed)
    elif report == "summary":
        for line in summary_lines(ready.plan, outcome):
            say(line)


def _reader(ready: Preflight) -> Reader | None:
    """The machine as predictions take it, where it was measured."""
    bandwidth, machine = ready.evidence.bandwidth, ready.machine
    if bandwidth is None or not bandwidth.covers(machine.mirror_nodes):
        return None
    home = ready.plan.home.node
    return Reader(
        bandwidth,
        cores_by_mirror_node(machine),
        machine.mirror_nodes[0] if home is None else home,
        ready.evidence.engine.threads,
    )


def _write_plan(path: Path, document: dict[str, Any]) -> None:
    try:
        write_whole(path, _text(document))
    except OSError as error:
        raise unwritable(path, error, _not_written(path, error), exit_code=2) from None


def _write_before(path: Path, document: dict[str, Any]) -> bool:
    """Whether the file can be written, as far as is known. A stream gets one document, the last."""
    try:
        if not is_stream(path):
            write_whole(path, _text(document))
    except OSError as error:
        say(f"{_not_written(path, error)}; the program is started all the same")
        return False
    return True


def _not_written(path: Path, error: OSError) -> str:
    return f"--json {path}: cannot be written: {error.strerror}"


def _write_after(path: Path, document: dict[str, Any]) -> None:
    try:
        write_whole(path, _text(document))
    except OSError as error:
        say(f"--json {path}: the result could not be written: {error.strerror}")


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"
