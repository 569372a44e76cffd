"""Programs that start another one, as far as that can be read off a command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from numamirror_cli.engine.shell_words import is_shell

# Options of ld.so(8) that take a value; all others stand alone.
_LOADER_VALUES = {
    "--library-path", "--inhibit-rpath", "--audit", "--preload", "--argv0",
    "--glibc-hwcaps-prepend", "--glibc-hwcaps-mask",
}  # fmt: skip

_ENV_VALUES = {"-u", "--unset", "-C", "--chdir"}

# Programs that replace themselves by another one: the options that take the next word as their
# value, and how many words of their own come before the program's (a mask, a priority, a time).
_STARTERS: dict[str, tuple[str, int]] = {
    "numactl": (
        "-i --interleave -w --weighted-interleave -p --preferred -P --preferred-many "
        "-m --membind -N --cpunodebind -C --physcpubind",
        0,
    ),
    "taskset": ("", 1),
    "chrt": ("-T --sched-runtime -P --sched-period -D --sched-deadline", 1),
    "timeout": ("-k --kill-after -s --signal", 1),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c --class -n --classdata", 0),
    "stdbuf": ("-i --input -o --output -e --error", 0),
    "setpriv": (
        "--reuid --regid --ruid --euid --rgid --egid --groups --inh-caps --ambient-caps "
        "--bounding-set --securebits --pdeathsig --selinux-label --apparmor-profile",
        0,
    ),
    "sudo": ("-u --user -g --group -p --prompt -D --chdir -h --host", 0),
    "doas": ("-u -C", 0),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "prlimit": ("", 0),
    "tini": ("-p -e", 0),
    "dumb-init": ("-r --rewrite", 0),
}

# They give the program an environment of their own, whoever calls them (sudoers(5), env_reset and
# the variables that are always removed; doas.conf(5)).
_CLEANERS = {"sudo", "doas"}

# Our own commands that start a program: their options with a value, as above.
OURSELVES = {
    "run": "--strategy --home --nodes --per --min-size --budget --adapt --rehearse --require "
    "--report --json --root",
    "observe": "--json",
}

# Options of a shell under which its string is a command as it stands; not -l or -i, since files
# that are read then may change what a name means.
_PLAIN_SHELL_OPTION = re.compile(r"-[aefouvx]*c?|pipefail")
# What is more to a shell than a letter of a word, quotes and backslashes left to shlex; and the
# words with which a shell does something by itself, or runs what follows in another way.
_SHELL_SYNTAX = re.compile(r"[|&;<>()$`*?\[\]{}~!#\n\r]")
_SHELL_VERBS = {
    ".", ":", "alias", "bg", "break", "builtin", "case", "cd", "command", "continue", "coproc",
    "declare", "do", "eval", "exec", "exit", "export", "fg", "for", "function", "getopts",
    "hash", "if", "jobs", "let", "local", "popd", "pushd", "read", "readonly", "return",
    "select", "set", "shift", "shopt", "source", "time", "times", "trap", "type", "typeset",
    "ulimit", "umask", "unalias", "unset", "until", "wait", "while",
}  # fmt: skip


@dataclass(frozen=True)
class Wrapped:
    """What a wrapper goes on to start.

    options: the wrapper's own arguments; command: the program behind it and its arguments.
    drops_preload: the wrapper that takes LD_PRELOAD away, with its option; "" if it does not.
    variables: what it adds to the environment. unread: why it is not known what it starts, else "".
    """

    options: tuple[str, ...]
    command: tuple[str, ...]
    drops_preload: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    unread: str = ""


def behind(name: str, arguments: Sequence[str]) -> Wrapped:
    """What a program of that name starts, when it is one that starts another; nothing else."""
    if name == "env":
        return behind_env(arguments)
    if name == "numamirror":
        return behind_ourselves(arguments)
    if is_shell(Path(name)):
        return behind_shell(name, arguments)
    return behind_starter(name, arguments)


def behind_all(command: Sequence[str]) -> Wrapped:
    """What is behind all wrappers of a command line, by their names alone: no file is looked at."""
    wrapped = Wrapped((), tuple(command))
    while wrapped.command:
        name, *arguments = wrapped.command
        inner = behind(Path(name).name, arguments)
        if not inner.command and not inner.unread:
            break
        wrapped = inner
    return wrapped


def behind_env(arguments: Sequence[str]) -> Wrapped:
    """What env(1) starts when it is called with those arguments."""
    rest = _split_strings(arguments)
    dropped = ""
    variables: dict[str, str] = {}
    while rest:
        word = rest[0]
        if not word.startswith("-") and "=" not in word:
            break
        rest = rest[1:]
        if not word.startswith("-"):
            name, _, value = word.partition("=")
            variables[name] = value
        if word in ("-", "-i", "--ignore-environment"):
            dropped = f"env {word}"
        elif word in ("-u", "--unset") and rest[:1] == ["LD_PRELOAD"]:
            dropped = f"env {word} LD_PRELOAD"
        elif word in ("-uLD_PRELOAD", "--unset=LD_PRELOAD") or word.startswith("LD_PRELOAD="):
            dropped = f"env {word}"
        if word in _ENV_VALUES:
            rest = rest[1:]
    return Wrapped((), tuple(rest), dropped, variables)


def _split_strings(arguments: Sequence[str]) -> list[str]:
    """The arguments with env's -S STRING, as "#!" lines use it, taken apart."""
    words = list(arguments)
    if words[:1] in (["-S"], ["--split-string"]) and len(words) > 1:
        text, rest = words[1], words[2:]
    elif words and words[0].startswith(("-S", "--split-string=")):
        text, rest = words[0].removeprefix("-S").removeprefix("--split-string="), words[1:]
    else:
        return words
    try:
        return [*shlex.split(text), *rest]
    except ValueError:
        return rest


def behind_loader(arguments: Sequence[str]) -> Wrapped:
    """What a dynamic loader starts when it is run as a program: ld.so [OPTION...] PROGRAM."""
    position = 0
    while position < len(arguments) and arguments[position].startswith("--"):
        position += 2 if arguments[position] in _LOADER_VALUES else 1
    return Wrapped(tuple(arguments[:position]), tuple(arguments[position:]))


def behind_starter(name: str, arguments: Sequence[str]) -> Wrapped:
    """What numactl, taskset, sudo and their like start; nothing for any other program's name."""
    if name not in _STARTERS:
        return Wrapped((), ())
    options, own_words = _STARTERS[name]
    position = _past_options(arguments, options.split()) + own_words
    dropped = name if name in _CLEANERS else ""
    return Wrapped(tuple(arguments[:position]), tuple(arguments[position:]), dropped)


def behind_ourselves(arguments: Sequence[str]) -> Wrapped:
    """What `numamirror run` and `numamirror observe` start."""
    if not arguments or arguments[0] not in OURSELVES:
        return Wrapped((), ())
    position = 1 + _past_options(arguments[1:], OURSELVES[arguments[0]].split())
    return Wrapped(tuple(arguments[:position]), tuple(arguments[position:]))


def behind_shell(name: str, arguments: Sequence[str]) -> Wrapped:
    """What `sh -c STRING` starts, where the string is one command and nothing that only a shell
    understands; a script's name is left to others."""
    position = 0
    while position < len(arguments) and arguments[position].startswith(("-", "+")):
        # set -o NAME; -euo NAME
        position += 2 if arguments[position].endswith(("o", "O")) else 1
    options, operands = arguments[:position], arguments[position:]
    is_string = any(re.match(r"-\w*c", word) for word in options)
    if not (is_string and operands):
        return Wrapped((), ())
    if all(map(_PLAIN_SHELL_OPTION.fullmatch, options)) and (inner := _one_command(operands[0])):
        return Wrapped(tuple(options), inner)
    return Wrapped((), (), unread=f"the string that {name} runs (-c) was not looked into")


def _one_command(string: str) -> tuple[str, ...]:
    """The words of a shell's string that is one command, spelled out; empty for any other."""
    if _SHELL_SYNTAX.search(string):
        return ()
    try:
        words = shlex.split(string)
    except ValueError:
        return ()
    if words[:1] == ["exec"]:
        del words[0]
    if not words or words[0] in _SHELL_VERBS or words[0].startswith("-") or "=" in words[0]:
        return ()
    return tuple(words)


def _past_options(arguments: Sequence[str], with_value: Sequence[str]) -> int:
    """Where the operands begin."""
    position = 0
    while position < len(arguments) and _is_option(arguments[position]):
        if arguments[position] == "--":
            return position + 1
        position += 2 if arguments[position] in with_value else 1
    return position


def _is_option(word: str) -> bool:
    """Or an assignment, as sudo takes them."""
    return word.startswith("-") or ("=" in word and "/" not in word.partition("=")[0])
