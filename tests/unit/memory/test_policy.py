"""What is set is what the kernel says, and a refused call is named with its cause."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from numamirror_cli.memory.policy import (
    DEFAULT,
    Policy,
    PolicyRefused,
    current_policy,
    explain_refusal,
    parse_policy,
    probe,
    set_policy,
    set_preferred,
)
from tests.unit.memory.under_seccomp import EINVAL, ENOSYS, EPERM, run_denied


def in_a_thread(action):
    """The result of `action` on a thread of its own, whose policy nobody else sees."""
    results = []

    def run():
        try:
            results.append(action())
        except PolicyRefused as refused:
            results.append(refused)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


def kernel_numa_maps_policies() -> set[str]:
    lines = Path("/proc/thread-self/numa_maps").read_text().splitlines()
    return {line.split()[1] for line in lines}


@pytest.mark.parametrize(
    "policy", [Policy("preferred", frozenset({0})), Policy("bind", frozenset({0})), DEFAULT]
)
def test_the_kernel_reports_the_policy_that_was_set(policy):
    def act():
        set_policy(policy)
        return current_policy()

    assert in_a_thread(act) == policy


def test_preferred_is_spelled_as_in_the_json():
    def act():
        set_preferred(0)
        return str(current_policy()), kernel_numa_maps_policies()

    ours, kernels = in_a_thread(act)
    assert ours == "preferred:0"
    assert "prefer:0" in kernels  # libraries give some of their memory a policy of its own


def test_setting_a_policy_leaves_other_threads_alone():
    before = current_policy()
    in_a_thread(lambda: set_preferred(0))
    assert current_policy() == before


def test_a_node_that_does_not_exist_is_named_with_the_allowed_ones():
    refused = in_a_thread(lambda: set_preferred(1000))
    assert isinstance(refused, PolicyRefused)
    assert refused.refusal.errno == EINVAL
    assert "node 1000 is not in Mems_allowed_list (" in refused.message


def test_a_cpuset_that_leaves_the_node_out_is_the_cause_of_einval(tmp_path):
    status = tmp_path / "proc/self/status"
    status.parent.mkdir(parents=True)
    status.write_text("Name:\tx\nMems_allowed_list:\t1\n")
    refusal = explain_refusal("set_mempolicy", EINVAL, [0], tmp_path)
    assert str(refusal) == "set_mempolicy: EINVAL: node 0 is not in Mems_allowed_list (1)"


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("default", "default"),
        ("prefer:1", "preferred:1"),
        ("bind:0-1", "bind:0-1"),
        ("bind=static:0-1", "bind:0-1"),
        ("interleave=relative|balancing:0,2", "interleave:0,2"),
        ("prefer (many):0-1", "preferred-many:0-1"),
        ("weighted interleave:0-3", "weighted-interleave:0-3"),
        ("local", "local"),
        ("preferred:1", "preferred:1"),
    ],
)
def test_the_kernels_spelling_becomes_ours(text, ours):
    assert str(parse_policy(text)) == ours


def test_a_policy_with_garbage_for_nodes_is_named():
    with pytest.raises(ValueError, match="zero"):
        parse_policy("bind:zero")


def test_nothing_is_refused_here_and_the_probe_leaves_no_trace():
    def act():
        set_preferred(0)
        return probe(0), current_policy()

    refusals, after = in_a_thread(act)
    assert refusals == ()
    assert str(after) == "preferred:0"


PROBE = "from numamirror_cli.memory.policy import probe\nfor r in probe(0): print(r)"


def test_a_container_profile_that_denies_set_mempolicy_and_mbind_is_recognised():
    said = run_denied(["set_mempolicy", "mbind"], EPERM, PROBE).splitlines()
    assert said == [
        "set_mempolicy: EPERM: blocked by the container's seccomp profile",
        "mbind: EPERM: blocked by the container's seccomp profile",
    ]


@pytest.mark.parametrize("name", ["get_mempolicy", "set_mempolicy", "mbind"])
@pytest.mark.parametrize(("code", "word"), [(EPERM, "EPERM"), (ENOSYS, "ENOSYS")])
def test_each_refused_call_is_told_apart(name, code, word):
    said = run_denied([name], code, PROBE).splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"{name}: {word}: ")


def test_the_refused_call_carries_its_remedy():
    said = run_denied(
        ["set_mempolicy"],
        EPERM,
        "from numamirror_cli.memory.policy import *\n"
        "try: set_preferred(0)\nexcept PolicyRefused as r: print(r.hint)",
    )
    assert "CAP_SYS_NICE" in said and "set_mempolicy" in said
