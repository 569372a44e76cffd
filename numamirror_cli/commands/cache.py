"""`numamirror cache`: on which nodes the page cache of a model file lies; drop it, read it in."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from numamirror_cli.commands.shared import json_option
from numamirror_cli.machine.nodes import read_nodes
from numamirror_cli.machine.tree import Tree
from numamirror_cli.memory.model_cache import (
    ModelCache,
    evict_model,
    lies_elsewhere,
    look_at,
    warm_model,
    warming_policy,
)
from numamirror_cli.memory.model_files import Model, find_model
from numamirror_cli.memory.policy import Policy
from numamirror_cli.report.cache import cache_json, left_text, missed_text, render_cache
from numamirror_cli.report.console import print_report
from numamirror_cli.report.reading import reading_progress
from numamirror_cli.report.run import say

_EPILOG = """\b
Exit status: 0 when it is done; 1 when the file cannot be read, pages stayed
that were to be dropped, or less than 99 % went where --warm was to read it; 2
for bad usage.
"""


@click.command(epilog=_EPILOG)
@click.argument("model", type=click.Path(readable=False, path_type=Path))
@click.option("--evict", is_flag=True, help="Drop it from the page cache; with --warm, first.")
@click.option(
    "--warm",
    metavar="NODE|interleave",
    help="Read it in on that node, or spread over all; what lies elsewhere is dropped first.",
)
@json_option
def command(model: Path, evict: bool, warm: str | None, as_json: bool) -> None:
    """Say how much of a model file is in the page cache, and on which nodes.

    Pages stay where they were first read, whatever policy the next program has: a model that is
    cached on the wrong node is used from there. All parts of a split file are followed. No option
    needs root.
    """
    policy = None if warm is None else warming_policy(warm, _nodes_with_memory())
    found = find_model(model)
    cache = _look(found)
    evicted = None
    undone = []
    if evict or (policy is not None and lies_elsewhere(cache, policy)):
        before, cache = cache, _evict(found)
        evicted = before.cached - cache.cached
        undone.append(_said(left_text(cache)))
    if policy is not None:
        cache = _warm(found, policy)
        undone.append(_said(missed_text(cache, policy)))
    if as_json:
        click.echo(json.dumps(cache_json(cache, evicted, policy), indent=2))
    else:
        print_report(render_cache(cache, evicted))
    sys.exit(1 if any(undone) else 0)


def _nodes_with_memory() -> frozenset[int]:
    return frozenset(node.id for node in read_nodes(Tree(Path("/"))) if node.mem_total)


def _look(model: Model) -> ModelCache:
    with reading_progress("looking", model.bytes) as tell:
        return look_at(model, tell)


def _said(undone: str) -> bool:
    """Say what was not done, where something was not."""
    if undone:
        say(undone)
    return bool(undone)


def _evict(model: Model) -> ModelCache:
    evict_model(model)
    return _look(model)


def _warm(model: Model, policy: Policy) -> ModelCache:
    with reading_progress("reading", model.bytes) as tell:
        warm_model(model, policy, tell)
    return _look(model)
