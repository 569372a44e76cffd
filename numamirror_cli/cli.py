"""The `numamirror` command: an explicit list of sub-commands, each imported when it is used."""

from __future__ import annotations

import errno
import importlib
import io
import os
import signal
import sys
from typing import Any

import click

from numamirror_cli import __version__
from numamirror_cli.errors import NumaMirrorError

# name -> one-line help, so that `numamirror --help` imports no command.
COMMANDS = {
    "run": "Start a program with its weights placed: home node, policy, mirror.",
    "inspect": "Say where a running process's memory is, and what that costs.",
    "topology": "Show nodes, distances, GPUs, and which node is home and why.",
    "bench": "Measure how fast each node reads each node's memory.",
    "plan": "Say what each strategy would cost and give a model, before it is started.",
    "observe": "Start a program as it is and count what it reads from which node.",
    "cache": "Say where the page cache of a model lies; drop it, or read it in on a node.",
    "check": "Say what a mirror can do with a program, before it is started.",
    "doctor": "Say what stands in the way of local reads, and what to do about it.",
    "completion": "Print the script that completes commands and options in a shell.",
}


class _Interrupted(BaseException):
    """Ctrl-C, kept from click, which would call it an ordinary failure."""


class _ClosedStdout(io.RawIOBase):
    """In place of a stdout that is closed: None, as Python has it, swallows what click writes."""

    def writable(self) -> bool:
        return True

    def write(self, _: object) -> int:
        raise OSError(errno.EBADF, "standard output is closed")


class LazyGroup(click.Group):
    """A click group whose sub-commands live in numamirror_cli/commands/NAME.py as `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"numamirror_cli.commands.{cmd_name}")
        command: click.Command = module.command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _Interrupted from None
        except click.UsageError as error:
            # An option without its value: click does not say of which command.
            if error.ctx is None and (name := ctx.invoked_subcommand):
                command = self.get_command(ctx, name)
                error.ctx = None if command is None else click.Context(command, ctx, name)
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="numamirror", message="%(prog)s %(version)s")
def cli() -> None:
    """NUMA placement launcher and diagnostics for LLM inference programs."""


def main() -> None:
    """Entry point: runs the group and shows a NumaMirrorError once, on stderr."""
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_ClosedStdout(), "utf-8", write_through=True)
    try:
        _run_cli()
    except NumaMirrorError as error:
        _show(error)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _show_click_error(error)
        sys.exit(error.exit_code)
    except (_Interrupted, click.Abort):
        # As the signal would have ended us: a shell's loop ends with it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except OSError as error:
        if error.filename is not None:
            raise
        # Without a file's name: of our stdout, and even the flush at the end would fail again.
        sys.stdout = None
        if error.errno != errno.EPIPE:
            message = f"the report cannot be written: {error.strerror}"
            hint = "give it a file that can be written: numamirror ... > FILE"
            _show(NumaMirrorError(message, hint=hint))
        sys.exit(1)


def _run_cli() -> None:
    try:
        # Not standalone: click would print its own errors, as they come.
        cli(prog_name="numamirror", standalone_mode=False)
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()


def _show(error: NumaMirrorError) -> None:
    from numamirror_cli.quoting import printable
    from numamirror_cli.report.run import say, write_message

    say(error.message)
    for line in error.listed:
        write_message(f"{printable(line)}\n")
    if error.hint:
        say(error.hint)


def _show_click_error(error: click.ClickException) -> None:
    """What click could not read, in our form, and how the command is called."""
    from numamirror_cli.report.run import say

    if type(error).__name__ == "NoArgsIsHelpError":  # since click 8.2; the help is the message
        error.show()
        return
    # Of a choice that is missing, click lists what there is on lines of their own.
    message = error.format_message().replace("\n\t", " ").removesuffix(".")
    say(message[:1].lower() + message[1:])
    if isinstance(error, click.UsageError) and error.ctx is not None:
        usage = " ".join(error.ctx.get_usage().split()).removeprefix("Usage: ")
        say(f"usage: {usage}; {error.ctx.command_path} --help says more")
