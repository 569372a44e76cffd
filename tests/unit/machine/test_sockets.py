"""Which nodes share a socket, where no package id says so: by distance, and not by guessing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from numamirror_cli.machine.read import read_machine

MakeRoot = Callable[..., Path]

NEAR, FAR = 12, 32


def rows(near: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The distances of four nodes, of which those pairs are near one another."""
    pairs = {*near, *((b, a) for a, b in near)}
    return [
        [10 if a == b else NEAR if (a, b) in pairs else FAR for b in range(4)] for a in range(4)
    ]


@pytest.mark.parametrize(
    ("near", "sockets"),
    [
        ([(0, 1), (2, 3)], ((0, 1), (2, 3))),
        ([(0, 2), (1, 3)], ((0, 2), (1, 3))),
        # A ladder: each is near to the next, and the first is far from the last.
        ([(0, 1), (1, 2), (2, 3)], ((0,), (1,), (2,), (3,))),
        ([(0, 1)], ((0, 1), (2,), (3,))),
        ([], ((0,), (1,), (2,), (3,))),
    ],
    ids=["pairs", "crossed pairs", "ladder", "one pair", "all far"],
)
def test_nodes_share_a_socket_when_all_of_them_are_near_and_nobody_else_is(
    make_root: MakeRoot, near: list[tuple[int, int]], sockets: tuple[tuple[int, ...], ...]
) -> None:
    nodes = {node: {"cpus": str(node)} for node in range(4)}
    assert read_machine(make_root(nodes, distances=rows(near)), environ={}).sockets == sockets
