"""From a machine and a command to facts, and from facts to the list of checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from numamirror_cli.doctor.check import BAD, Check
from numamirror_cli.doctor.facts import Facts, read_facts
from numamirror_cli.doctor.kernel_checks import kernel_checks
from numamirror_cli.doctor.machine_checks import machine_checks
from numamirror_cli.engine.shim import find_shim


def diagnose(facts: Facts) -> tuple[Check, ...]:
    """All checks, from the machine to the command. Pure."""
    checks = (*machine_checks(facts), *kernel_checks(facts))
    if facts.subject is None:
        return checks
    from numamirror_cli.doctor.command_checks import command_checks

    return (*checks, *command_checks(facts))


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
    if not command:
        return facts
    # Engine and model take a while to import, and without a command nothing needs them.
    from numamirror_cli.doctor.subject import read_subject

    return replace(facts, subject=read_subject(command, facts, ours=ours))
