"""Option values as a person writes them: times, sizes, budgets and node lists."""

from __future__ import annotations

import math
import re
from typing import Any

import click

from numamirror_cli.launch.plan import Budget
from numamirror_cli.machine.cpulist import parse_list

_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*(?:([KMGT])(?:i?B)?|B)?", re.IGNORECASE)
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*%")
_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# What the shim can read (a signed 64-bit number).
_MOST_BYTES = (1 << 63) - 1


class Seconds(click.FloatRange):
    """A time that ends: Python reads "nan" and "inf" as numbers, and "nan" is in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return seconds


def read_size(_ctx: click.Context, _param: click.Parameter, value: str) -> int:
    """ "1048576", "1024K", "1MiB", "0.5 GB" -> bytes; all units are binary."""
    size = _parse_size(value)
    if size is None:
        raise click.BadParameter(f"{value!r} is not a size such as 512K, 1MiB or 2G")
    return size


def read_budget(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Budget | None:
    """ "200GiB" or "40%"; None when the option is absent."""
    if value is None:
        return None
    if share := _PERCENT.fullmatch(value.strip()):
        percent = float(share[1])
        if 0 < percent <= 100:
            return Budget(share=percent / 100)
    elif size := _parse_size(value):
        return Budget(bytes=size)
    raise click.BadParameter(f"{value!r} is neither a size such as 200GiB nor a share such as 40%")


def _parse_size(text: str) -> int | None:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    size = int(float(match[1]) * _FACTORS[(match[2] or "").upper()])
    if size > _MOST_BYTES:
        raise click.BadParameter(f"{text!r} is more than any machine has")
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
