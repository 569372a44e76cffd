"""The facts about the command that `doctor` is asked about: its engine, model and page cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from numamirror_cli.doctor.facts import Facts, Subject
from numamirror_cli.engine.examination import examine_command
from numamirror_cli.engine.followed import program_arguments
from numamirror_cli.engine.privileges import this_caller
from numamirror_cli.engine.shim import find_shim
from numamirror_cli.engine.target import find_target
from numamirror_cli.engine.wrappers import behind_all
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.memory.model_cache import ModelCache, look_at
from numamirror_cli.memory.model_files import find_model
from numamirror_cli.plan.engine_args import EngineArguments, parse_engine_args
from numamirror_cli.plan.estimate import Estimate, Request, estimate


def read_subject(command: Sequence[str], facts: Facts, *, ours: bool) -> Subject:
    """What a command line comes down to. ours: on this machine, whose files and page cache count.

    Raises NumaMirrorError (127, 126) when there is no such program on this machine.
    """
    examination = None
    words = behind_all(command).command[1:]
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
    if facts.deadly:  # numpy, by which models are read, asks for policies of memory
        unread = f"{subject.model} was not read: a seccomp filter kills for calls that this makes"
        return replace(subject, problem=unread)
    try:
        subject = replace(subject, estimate=_estimate(subject, facts))
    except NumaMirrorError as error:
        return replace(subject, problem=error.message)
    return replace(subject, cache=_cache(Path(subject.model)) if ours else None)


def _estimate(subject: Subject, facts: Facts) -> Estimate:
    # Not before there is a model to read: gguf takes a while to import.
    from numamirror_cli.plan.gguf_header import read_model

    header, limit = read_model(Path(subject.model)), facts.settings.lock_limit
    return estimate(Request(header, facts.machine, subject.arguments, memlock=limit))


def _cache(model: Path) -> ModelCache | None:
    try:
        return look_at(find_model(model), lambda _: None)
    except NumaMirrorError:  # the kernel tells only the file's owner
        return None
