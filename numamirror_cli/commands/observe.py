"""`numamirror observe`: count what an engine reads from where; copy and move nothing."""

from __future__ import annotations

from pathlib import Path

import click

from numamirror_cli.commands import run
from numamirror_cli.commands.shared import OUTPUT_FILE, program_argument, verbose_option
from numamirror_cli.launch.plan import DEFAULT_MIN_BYTES
from numamirror_cli.launch.strategies import OBSERVE


@click.command(
    "observe",
    context_settings={"allow_interspersed_args": False},
    no_args_is_help=True,
)
@click.option(
    "--json",
    "json_file",
    type=OUTPUT_FILE,
    metavar="FILE",
    help="Write the plan, the events and what was counted to FILE, as run --json does.",
)
@verbose_option
@program_argument
@click.pass_context
def command(
    ctx: click.Context, words: tuple[str, ...], json_file: Path | None, verbose: bool
) -> None:
    """Start PROGRAM as it is and count what its threads read from which node.

    Bytes of GEMM weights are booked by thread and op, and the kernel is asked for a sample of
    their pages every second or more, for half a percent of the time at most. At the end, on
    stderr: bytes per token, the local share by node with its error, which tensors were read from
    elsewhere, and what each strategy would make of it; with a bench of this machine, by how much.
    No policy is set.
    """
    ctx.invoke(
        run.command,
        words=words,
        strategy=OBSERVE,
        min_size=DEFAULT_MIN_BYTES,
        json_file=json_file,
        verbose=verbose,
    )
