"""What `run` says: plan, live events, and the report at the end. All of it goes to stderr."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from numamirror_cli.figures import counted, nodes_word, percent
from numamirror_cli.launch.copies import Copy
from numamirror_cli.launch.events import Event
from numamirror_cli.launch.plan import Plan
from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.notice import Notice
from numamirror_cli.quoting import printable, shell_line, shell_word
from numamirror_cli.report.text import folded_line
from numamirror_cli.report.units import part_of, size

PREFIX = "numamirror: "
# How a reason ends that is no failure.
NOTHING_TO_MIRROR = "nothing to mirror"

# Narrower than this, folding helps nobody.
_NARROWEST = 40
# Fewer sampled pages than this in place, and "only" is the right word.
_IN_PLACE = 0.99


def say(line: str) -> None:
    """Write a line of ours to stderr."""
    message = f"{PREFIX}{printable(line)}"
    columns = _terminal_columns()
    write_message(f"{folded_line(message, columns) if columns else message}\n")


def _terminal_columns() -> int:
    """Of the terminal that stderr is; 0 where it is none and each message stays one line."""
    try:
        if sys.stderr is None or not (sys.stderr.isatty() or os.environ.get("FORCE_COLOR")):
            return 0
        chosen = os.environ.get("COLUMNS", "")
        columns = int(chosen) if chosen else os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 0
    # 0 columns: a terminal that does not know its size.
    return max(columns, _NARROWEST) if columns > 0 else 0


def write_message(text: str) -> None:
    """Write to stderr, as far as there is one."""
    with stderr_may_be_gone():
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()


@contextlib.contextmanager
def stderr_may_be_gone() -> Iterator[None]:
    """That stderr is full, or that nobody reads it any more, is no reason to fail.

    rich raises SystemExit when its reader has left: the status of a run is not rich's to choose.
    """
    try:
        yield
    except (OSError, SystemExit):
        # Nothing more is said: even the flush at the interpreter's end would fail again.
        sys.stderr = None


def notice_line(notice: Notice) -> str:
    """ "what: why (remedy)", as far as each is there."""
    line = ": ".join(part for part in (notice.what, notice.why) if part)
    return f"{line} ({notice.remedy})" if notice.remedy else line


def plan_lines(plan: Plan, policy: str) -> Iterator[str]:
    """What is going to be done, before it is. policy: the kernel's word after it was set, or ""."""
    if plan.home.node is not None and plan.strategy != "none":
        yield f"home node {plan.home.node}: {plan.home.reason}"
    policy_phrase = f"; memory policy {policy}" if policy else ""
    if plan.choice is not None:
        choice = plan.choice
        yield f"strategy {choice.name}: {choice.because}; changed by: {choice.would_change}"
    is_said = plan.choice is not None and plan.choice.because == plan.reason
    if is_said or (plan.by_kernel_alone and plan.unheld):
        yield from (f"memory policy {policy}",) if policy else ()
    elif plan.mirrors or plan.intended or plan.reason.endswith(NOTHING_TO_MIRROR):
        yield f"{plan.reason}{policy_phrase}"
    elif plan.strategy == "prefer":
        yield f"not mirrored: {plan.reason}{policy_phrase}"
    else:
        yield f"not mirrored: {plan.reason}"
    if plan.caller_policy is not None:
        yield f"policy {plan.caller_policy} set by the caller, kept"


def copy_lines(plan: Plan) -> Iterator[str]:
    """Which copy lies where and who reads it."""
    if not plan.uses_shim:
        return
    for copy in plan.copies:
        nodes = nodes_word(format_list(copy.nodes))
        readers = "all" if plan.strategy == "interleave" else format_list(copy.cpus)
        yield f"{nodes}: {_what_lies_there(plan, copy)}, for CPUs {readers}"


def _what_lies_there(plan: Plan, copy: Copy) -> str:
    if plan.strategy == "shard":
        return "the rows that are read there"
    if plan.strategy == "interleave":
        return "an equal part of the weights"
    if plan.strategy == "observe":
        return "no copy"
    in_place = plan.home.node in copy.nodes and not plan.copy_home
    if not in_place:
        return "replica"
    # Replicas are spread over the nodes of a socket; what the engine loads goes to one.
    at_home = f", on node {plan.home.node} as far as it fits" if len(copy.nodes) > 1 else ""
    return f"primary{at_home}, read in place"


def verbose_lines(
    plan: Plan, chain: Sequence[Path], unread: str, environment: Mapping[str, str]
) -> Iterator[str]:
    """What -v adds to the plan."""
    yield f"starting {' -> '.join(map(str, chain))}"
    if unread:
        yield f"whether a preload reaches it is not known: {unread}"
    yield from copy_lines(plan)
    for name, value in environment.items():
        if name.startswith("NUMAMIRROR_") or name == "LD_PRELOAD":
            yield f"{name}={value}"


def dry_run_lines(
    plan: Plan, command: Sequence[str], program: str, environment: Mapping[str, str]
) -> Iterator[str]:
    """The plan, and the environment as `env` would take it."""
    yield f"Program:   {program}"
    yield f"Command:   {shell_line(command)}"
    yield f"Strategy:  {plan.strategy} ({plan.reason})"
    home = "none" if plan.home.node is None else f"node {plan.home.node}"
    yield f"Home:      {home} ({plan.home.reason})"
    if plan.caller_policy is not None:
        yield f"Policy:    {plan.caller_policy}, set by the caller, kept"
    else:
        yield f"Policy:    {plan.policy or 'none is set'}"
    if plan.budget_bytes is not None:
        yield f"Budget:    {size(plan.budget_bytes)} for the replicas of one copy"
    if plan.affinity:
        yield f"CPUs:      {format_list(plan.affinity)}"
    if plan.choice is not None:
        yield f"Because:   {plan.choice.because}; changed by: {plan.choice.would_change}"
    yield from _listed("Copies:", copy_lines(plan))
    yield from _listed("Notes:", map(notice_line, plan.notes))
    assignments = (f"{name}={shell_word(value)}" for name, value in environment.items())
    yield from _listed("Environment:", assignments)


def _listed(heading: str, lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == 0:
            yield heading
        yield f"  {line}"


def event_line(event: Event, rehearsal: bool, verbose: bool) -> str:
    """What an event means to the user; "" for one that needs no words."""
    if event.name == "replica":
        return _replica_line(event, rehearsal)
    if event.name == "primary":
        where = _sampled(event, rehearsal)
        of = size(event.number("bytes"))
        return f"{where_of_copy(event, rehearsal)}: primary of {of}, {where}"
    if event.name == "placed":
        return _placed_line(event, rehearsal)
    if event.name == "coverage":
        return _coverage_line(event)
    if event.name == "note" and (verbose or event.data.get("level") != "info"):
        return notice_line(Notice(event.text("what"), event.text("why"), event.text("remedy")))
    if verbose and event.name == "engine":
        return f"engine {event.text('library')} in process {event.pid}"
    if verbose and event.name == "freed":
        return f"{size(event.number('bytes'))} of weights were freed, with their replicas"
    if verbose and event.name == "hello":
        return f"shim {event.text('version')} in process {event.pid}"
    return ""


def _replica_line(event: Event, rehearsal: bool) -> str:
    seconds = event.number("ns") / 1e9
    return (
        f"{where_of_copy(event, rehearsal)}: replica of {size(event.number('bytes'))} in "
        f"{seconds:.2f} s, {_sampled(event, rehearsal)}"
    )


def _placed_line(event: Event, rehearsal: bool) -> str:
    """Every page was asked for, not a sample."""
    pages, local = event.number("pages"), event.number("local")
    weights = f"{size(event.number('bytes'))} of weights"
    readers = counted(event.number("threads"), "thread")
    if rehearsal:
        return f"shard rehearsed: nothing was moved; {weights} have readers, {readers}"
    share = local / pages if pages else 0.0
    only = "only " if share < _IN_PLACE else ""
    huge = event.number("huge_bytes")
    in_huge = f", {size(huge)} in huge pages" if huge else ""
    return (
        f"shard: {only}{percent(share)} of {weights} on the node of their reader, {readers}, "
        f"after {event.number('ns') / 1e9:.2f} s{in_huge}"
    )


def where_of_copy(event: Event, rehearsal: bool = False) -> str:
    """ "node 1", or all of them where the copy lies over a socket: "nodes 2,3"."""
    nodes = event.text("nodes") or str(event.number("node"))
    return f"{'pretend ' if rehearsal else ''}{nodes_word(nodes)}"


def _sampled(event: Event, rehearsal: bool) -> str:
    """Where the sample found the pages. A rehearsal has no node of its own to find them on."""
    pages, local = event.number("sampled_pages"), event.number("sampled_local")
    if pages <= 0:
        return "where its pages lie could not be sampled"
    if rehearsal:
        return f"{counted(pages, 'page')} sampled"
    share = local / pages
    only = "only " if share < _IN_PLACE else ""
    sampled = counted(pages, "sampled page")
    return f"{only}{percent(share)} of {sampled} on {where_of_copy(event)}"


def _coverage_line(event: Event) -> str:
    gemm, mirrored = event.number("gemm_bytes"), event.number("mirrored_bytes")
    if gemm <= 0:
        return ""
    line = f"coverage {percent(mirrored / gemm)} ({part_of(mirrored, gemm)} that GEMM reads)"
    token, served = event.number("token_bytes"), event.number("token_mirrored_bytes")
    if token <= 0 or mirrored >= gemm:
        return line
    return f"{line}, {percent(served / token)} by reads"
