"""Option values as a person writes them: click callbacks for sizes and node lists."""

from __future__ import annotations

import re

import click

from numamirror_cli.machine.cpulist import parse_list

_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*(?:([KMGT])(?:i?B)?|B)?", re.IGNORECASE)
_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# What the shim can read (a signed 64-bit number).
_MOST_BYTES = (1 << 63) - 1


def read_size(_ctx: click.Context, _param: click.Parameter, value: str) -> int:
    """ "1048576", "1024K", "1MiB", "0.5 GB" -> bytes; all units are binary."""
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise click.BadParameter(f"{value!r} is not a size such as 512K, 1MiB or 2G")
    size = int(float(match[1]) * _FACTORS[(match[2] or "").upper()])
    if size > _MOST_BYTES:
        raise click.BadParameter(f"{value!r} is more than any machine has")
    return size


def read_node_list(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> frozenset[int] | None:
    """ "0,2-3" -> kernel node ids, at least one; None when the option is absent."""
    if value is None:
        return None
    try:
        nodes = parse_list(value)
    except ValueError:
        nodes = frozenset()
    if not nodes:
        raise click.BadParameter(f"{value!r} is not a list of node ids such as 0,1 or 0-3")
    return nodes
