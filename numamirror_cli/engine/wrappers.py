"""Programs that start another one, as far as that can be read off a command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class Wrapped:
    """What a wrapper goes on to start.

    options: the wrapper's own arguments; command: the program behind it and its arguments.
    drops_preload: the wrapper that takes LD_PRELOAD away, with its option; "" if it does not.
    variables: what it adds to the environment.
    """

    options: tuple[str, ...]
    command: tuple[str, ...]
    drops_preload: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


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
    with_value = options.split()
    position = 0
    while position < len(arguments) and _is_option(arguments[position]):
        if arguments[position] == "--":
            position += 1
            break
        position += 2 if arguments[position] in with_value else 1
    position += own_words
    dropped = name if name in _CLEANERS else ""
    return Wrapped(tuple(arguments[:position]), tuple(arguments[position:]), dropped)


def _is_option(word: str) -> bool:
    """Or an assignment, as sudo takes them."""
    return word.startswith("-") or ("=" in word and "/" not in word.partition("=")[0])
