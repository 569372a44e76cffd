"""`numamirror plan`: what each strategy would cost and give a model, before anything is started."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from numamirror_cli.commands.shared import home_option, json_option, root_option
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.machine.archive import open_root
from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.machine.home import choose_home
from numamirror_cli.machine.model import Machine
from numamirror_cli.machine.read import read_machine
from numamirror_cli.memory.lock_limit import read_lock_limit
from numamirror_cli.memory.seccomp import say_deadly, try_our_calls
from numamirror_cli.plan.bandwidth import Bandwidth, bandwidth_by_hand
from numamirror_cli.plan.bench_result import bandwidth_of, identify
from numamirror_cli.plan.bench_store import load, load_for
from numamirror_cli.plan.engine_args import parse_engine_args
from numamirror_cli.plan.estimate import STRATEGIES, Request, estimate
from numamirror_cli.plan.predict import Measured


@click.command("plan", context_settings={"allow_interspersed_args": False}, no_args_is_help=True)
@click.option(
    "--bandwidth",
    metavar="local=GB/S,remote=GB/S",
    help="Instead of a bench: what the cores of a node read from their own memory and another's.",
)
@click.option(
    "--bench",
    "bench_path",
    type=click.Path(dir_okay=False, readable=False, path_type=Path),
    metavar="FILE",
    help="A result of `bench --json`.  [default: the one that is kept for this machine]",
)
@click.option(
    "--measured",
    metavar="STRATEGY=TOKENS/S",
    help="What you measured with this model under a strategy; the others follow from it.",
)
@home_option
@json_option
@root_option("Plan for the machine of this dump.")
@click.argument("model", type=click.Path(readable=False, path_type=Path), metavar="MODEL.gguf")
@click.argument(
    "engine_args", nargs=-1, type=click.UNPROCESSED, metavar="[--] [ENGINE ARGUMENT]..."
)
def command(
    model: Path,
    engine_args: tuple[str, ...],
    bandwidth: str | None,
    bench_path: Path | None,
    measured: str | None,
    home: int | None,
    as_json: bool,
    root: Path,
) -> None:
    """Say what each strategy would take and give for MODEL, and which one to choose.

    Only the model's header is read, all parts of a split one. ENGINE ARGUMENTs are those of
    llama.cpp's programs: -ngl, -ot, --cpu-moe, --n-cpu-moe, -t, -c, -ctk, -ctv, --no-mmap, --mlock
    decide what stays on the CPU; what is not understood is listed.
    """
    if bandwidth and bench_path:
        raise NumaMirrorError(
            "--bandwidth and --bench exclude one another",
            hint="leave one of them out; without both, this machine's own bench is taken",
            exit_code=2,
        )
    _check_order(engine_args)
    arguments = parse_engine_args([word for word in engine_args if word != "--"])
    rate = None if measured is None else _read_measured(measured)
    # numpy, by which models are read, asks for policies of memory when it is imported.
    if deadly := try_our_calls().deadly:
        notice = say_deadly(deadly)
        raise NumaMirrorError(f"{model}: cannot be read here: {notice.why}", hint=notice.remedy)
    # Not before the options are known to be right: gguf takes a while to import.
    from numamirror_cli.plan.gguf_header import read_model

    header = read_model(model)
    with open_root(root) as directory:
        machine = read_machine(directory)
        figures = _bandwidth(machine, directory, bandwidth, bench_path)
        limit = read_lock_limit(directory)
    placed = _with_home(machine, home)
    result = estimate(Request(header, placed, arguments, figures, rate, limit))
    if as_json:
        from numamirror_cli.report.plan import plan_json

        click.echo(json.dumps(plan_json(result), indent=2))
        return
    from numamirror_cli.report.console import print_report
    from numamirror_cli.report.plan import render_plan

    print_report(render_plan(result))


def _check_order(engine_args: Sequence[str]) -> None:
    """An option of ours behind MODEL would be taken for the engine's, which has none of these."""
    ours = {name for param in command.params for name in param.opts if name.startswith("--")}
    behind_model = itertools.takewhile(lambda word: word != "--", engine_args)
    for name in (word.partition("=")[0] for word in behind_model):
        if name in ours:
            raise NumaMirrorError(
                f"{name} stands behind MODEL.gguf, where the engine's arguments stand",
                hint=f"put it in front of MODEL.gguf: numamirror plan {name} ...; or, if it is the "
                "engine's, put -- before it",
                exit_code=2,
            )


def _with_home(machine: Machine, wanted: int | None) -> Machine:
    """The machine with the home that `run` would take, which has to have CPUs here."""
    home = choose_home(machine, wanted)
    if home.node is not None and home.node not in machine.mirror_nodes:
        raise NumaMirrorError(
            f"node {home.node} has no CPUs: what its memory gives is not predicted",
            hint=f"choose a home among nodes {format_list(machine.mirror_nodes)}",
            exit_code=2,
        )
    return replace(machine, home=home)


def _bandwidth(
    machine: Machine, root: Path, by_hand: str | None, bench_path: Path | None
) -> Bandwidth | None:
    """What the user gave, else what was measured on that machine, else nothing."""
    if by_hand:
        return bandwidth_by_hand(by_hand, machine.mirror_nodes or (0,))
    result = load(bench_path) if bench_path else load_for(identify(machine, root))
    return None if result is None else bandwidth_of(result)


def _read_measured(text: str) -> Measured:
    strategy, _, figure = text.partition("=")
    try:
        tokens = float(figure)
    except ValueError:
        tokens = 0.0
    if strategy not in STRATEGIES or not 0 < tokens < math.inf:
        raise NumaMirrorError(
            f"--measured {text}: not of the form interleave=4.93",
            hint=f"strategies are {', '.join(STRATEGIES)}; the figure is tokens a second",
            exit_code=2,
        )
    return Measured(strategy, tokens)
