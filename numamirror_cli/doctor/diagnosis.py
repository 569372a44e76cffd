"""From facts to the list of checks, and from a command line to the facts about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from numamirror_cli.doctor.check import BAD, Check
from numamirror_cli.doctor.command_checks import command_checks
from numamirror_cli.doctor.facts import Facts, Subject, read_facts
from numamirror_cli.doctor.kernel_checks import kernel_checks
from numamirror_cli.doctor.machine_checks import machine_checks
from numamirror_cli.doctor.settings import UNLIMITED
from numamirror_cli.engine.examination import examine_command
from numamirror_cli.engine.followed import program_arguments
from numamirror_cli.engine.privileges import this_caller
from numamirror_cli.engine.shim import find_shim
from numamirror_cli.engine.target import find_target
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.memory.model_cache import ModelCache, look_at
from numamirror_cli.memory.model_files import find_model
from numamirror_cli.plan.engine_args import EngineArguments, parse_engine_args
from numamirror_cli.plan.estimate import Estimate, Request, estimate


def diagnose(facts: Facts) -> tuple[Check, ...]:
    """All checks, from the machine to the command. Pure."""
    return (*machine_checks(facts), *kernel_checks(facts), *command_checks(facts))


def is_bad(checks: Sequence[Check]) -> bool:
    """Something would keep a mirror from doing what it is for."""
    return any(check.level == BAD for check in checks)


def gather_facts(root: Path, command: Sequence[str], environ: Mapping[str, str]) -> Facts:
    """Read the machine, and what the command names. Under another root than / the engine and the
    page cache, which are this machine's, are left out.

    Raises NumaMirrorError (127, 126) when there is no such program here.
    """
    facts = read_facts(root, environ)
    ours = root == Path("/")
    if ours:
        facts = replace(facts, shim_problem=find_shim(environ).problem)
    return replace(facts, subject=_subject(command, facts, ours)) if command else facts


def _subject(command: Sequence[str], facts: Facts, ours: bool) -> Subject:
    examination = None
    words = tuple(command[1:])
    if ours:
        shim, caller = find_shim(facts.environ), this_caller()
        examination = examine_command(command, shim, caller, facts.environ)
        words = program_arguments(find_target(command, facts.environ))
    try:
        arguments = parse_engine_args(["engine", *words])
    except NumaMirrorError as error:
        return Subject(tuple(command), EngineArguments(), examination, problem=error.message)
    subject = Subject(tuple(command), arguments, examination, arguments.model)
    if not subject.model:
        return subject
    try:
        subject = replace(subject, estimate=_estimate(subject, facts))
    except NumaMirrorError as error:
        return replace(subject, problem=error.message)
    return replace(subject, cache=_cache(Path(subject.model)) if ours else None)


def _estimate(subject: Subject, facts: Facts) -> Estimate:
    # Not before there is a model: gguf takes a while to import.
    from numamirror_cli.plan.gguf_header import read_model

    limit = None if facts.settings.lock_limit == UNLIMITED else facts.settings.lock_limit
    header = read_model(Path(subject.model))
    return estimate(Request(header, facts.machine, subject.arguments, memlock=limit))


def _cache(model: Path) -> ModelCache | None:
    try:
        return look_at(find_model(model), lambda _: None)
    except NumaMirrorError:  # the kernel tells only the file's owner
        return None
