"""A unit of a real systemd that sets a memory policy: it is its administrator's, and stays."""

from __future__ import annotations

from typing import Any

import pytest

from .vm import Result

NO_SYSTEMD = 77


@pytest.fixture(scope="module")
def seen(hostile_boot: dict[str, Result]) -> Any:
    result = hostile_boot["unit"]
    if result.code == NO_SYSTEMD:
        pytest.skip("systemd is not installed: apt-get install systemd")
    return result.json()


def test_the_numa_policy_of_a_unit_is_kept_and_named(seen: Any) -> None:
    assert seen["policy"] == "bind:0"  # by the kernel, in the engine
    assert seen["stderr"].count("policy bind:0 set by the caller, kept") == 1
    assert seen["run"]["plan"]["policy"] is None
    assert seen["run"]["plan"]["caller_policy"] == "bind:0"


def test_nothing_is_claimed_of_what_the_units_policy_rules_out(seen: Any) -> None:
    assert seen["replicas"] == []
    for sentence in seen["inspect"]["verdict"] + seen["run"]["verdict"]:
        assert not sentence["text"].startswith("mirrored")


def test_the_output_is_that_of_the_run_without_us(
    seen: Any, hostile_boot: dict[str, Result]
) -> None:
    assert seen["exit"] == 0
    assert seen["line"] == hostile_boot["plain"].json()
