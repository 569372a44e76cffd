"""Everything that the checks look at, read once: the machine, its settings, and the command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from numamirror_cli.doctor.settings import Settings, read_settings
from numamirror_cli.machine.cores import read_cores
from numamirror_cli.machine.home import choose_home
from numamirror_cli.machine.model import Machine
from numamirror_cli.machine.notes import note_on_hidden_nodes
from numamirror_cli.machine.read import read_machine
from numamirror_cli.machine.sockets import packages_of
from numamirror_cli.machine.tree import Tree
from numamirror_cli.memory.policy import Refusal, probe
from numamirror_cli.memory.seccomp import try_our_calls
from numamirror_cli.notice import Notice

if TYPE_CHECKING:
    from numamirror_cli.engine.examination import Examination
    from numamirror_cli.memory.model_cache import ModelCache
    from numamirror_cli.plan.engine_args import EngineArguments
    from numamirror_cli.plan.estimate import Estimate


@dataclass(frozen=True)
class Subject:
    """The command that is to be started.

    model: file that it names, "" when it names none. estimate: what the model takes and where,
    None when it cannot be read; problem: why, then. cache: where its page cache is, None when that
    was not asked or not told.
    """

    command: tuple[str, ...]
    arguments: EngineArguments
    examination: Examination | None = None
    model: str = ""
    estimate: Estimate | None = None
    problem: str = ""
    cache: ModelCache | None = None


@dataclass(frozen=True)
class Facts:
    """hidden_nodes: how NUMA is hidden from the kernel, in a sentence, "" when it is not.

    refusals: policy calls that are refused here, None when that was not tried. deadly: our calls
    for which a filter kills; then none is tried. shim_problem: why there is no shim to preload,
    None when there is one or it was not looked for.
    """

    machine: Machine
    settings: Settings
    hidden_nodes: str = ""
    refusals: tuple[Refusal, ...] | None = None
    deadly: tuple[str, ...] = ()
    shim_problem: Notice | None = None
    subject: Subject | None = None
    environ: Mapping[str, str] = field(default_factory=dict)


def read_facts(root: Path, environ: Mapping[str, str]) -> Facts:
    """The machine below `root` as this process may use it; policy calls are tried on this one."""
    machine = read_machine(root, environ=environ)
    machine = replace(machine, home=choose_home(machine, None, environ))
    ours = root == Path("/")
    deadly = try_our_calls().deadly if ours else ()
    tried = ours and machine.numa and not deadly
    return Facts(
        machine=machine,
        settings=read_settings(root),
        hidden_nodes=_hidden_nodes(Tree(root), machine),
        refusals=probe(_a_memory_node(machine)) if tried else None,
        deadly=deadly,
        environ=environ,
    )


def _a_memory_node(machine: Machine) -> int:
    return next((node.id for node in machine.nodes if node.can_hold_a_copy), 0)


def _hidden_nodes(tree: Tree, machine: Machine) -> str:
    cores = read_cores(tree, frozenset[int]().union(*(node.cpus for node in machine.nodes)))
    packages = [len(packages_of(node.cpus, cores.packages)) for node in machine.nodes]
    return next(note_on_hidden_nodes(tree, machine.nodes, packages), "")
