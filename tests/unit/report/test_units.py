"""Amounts of memory as they are shown."""

from __future__ import annotations

import pytest

from numamirror_cli.figures import counted
from numamirror_cli.report.units import mib, size


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        ((1 << 20) - 1, "1 MiB"),
        (246_415_360, "235 MiB"),
        (253_113_024, "241 MiB"),
        (3 << 29, "1.5 GiB"),
        (1023 << 20, "1023 MiB"),
        ((1 << 30) - 1, "1 GiB"),
        (128 << 30, "128 GiB"),
        (5 << 40, "5 TiB"),
        (-3 << 20, "-3 MiB"),
    ],
)
def test_sizes_are_shown_in_the_unit_a_person_would_choose(count: int, shown: str) -> None:
    assert size(count) == shown


def test_mib_keeps_fractions() -> None:
    assert mib(1_572_864) == 1.5


def test_one_thing_is_not_many() -> None:
    assert [counted(n, "core") for n in (0, 1, 2)] == ["0 cores", "1 core", "2 cores"]
