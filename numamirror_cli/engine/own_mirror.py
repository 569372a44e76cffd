"""Engines that mirror by themselves: how they are known, how they are asked to, and what they call
their home node.

The proposal to llama.cpp (pull request 27986) takes `--numa mirror`, gives home to the node of most
GPUs, keeps a memory policy that it is started under, and reads another home from a variable of its
environment. That variable's name is taken from the library itself: the proposal is still open, and
a name that is not in the library would do nothing. The port to ik_llama.cpp (pull request 2396)
takes the same argument and has no word for its home.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from numamirror_cli.engine.marks import MOST_BYTES, contains

# What such builds print: the value of --numa in their help, or a line of their log.
_OWN_MIRROR = (b"\n- mirror", b"numa mirror", b"NUMA mirror")
_HOME_VARIABLE = re.compile(rb"\0(GGML_NUMA_(?:[A-Z]+_)*HOME(?:_NODE)?)\0")


@dataclass(frozen=True)
class OwnMirror:
    """home_variable: the variable from which the engine takes the number of its home node; "" for
    none."""

    home_variable: str = ""


def read_own_mirror(libraries: Sequence[Path]) -> OwnMirror | None:
    """The mirror that these libraries of one engine can make, None for none."""
    if not any(contains(library, _OWN_MIRROR) for library in libraries):
        return None
    names = {name for library in libraries for name in _home_variables(library)}
    return OwnMirror(names.pop() if len(names) == 1 else "")


def asks_for_mirror(arguments: Sequence[str]) -> bool:
    """--numa mirror, in the engines' own spelling; it means nothing to a build without it."""
    return ("--numa", "mirror") in pairwise(arguments) or "--numa=mirror" in arguments


def _home_variables(library: Path) -> set[str]:
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as code:
            return {found[1].decode() for found in _HOME_VARIABLE.finditer(code, 0, MOST_BYTES)}
    except (OSError, ValueError):  # gone meanwhile, or empty
        return set()
