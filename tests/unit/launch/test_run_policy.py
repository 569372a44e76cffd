"""The memory policy of the program: ours where there is none, the caller's where there is one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.launch.conftest import REPOSITORY, numamirror_run
from tests.unit.memory.under_seccomp import ENOSYS, EPERM, run_denied

INHERIT = """
from numamirror_cli.launch.policy import inherit_policy
from numamirror_cli.memory.policy import Policy
from numamirror_cli.report.run import notice_line
outcome = inherit_policy(Policy("preferred", frozenset({0})))
print(outcome.policy, "|", notice_line(outcome.notice) if outcome.notice else "")
"""
READ = """
from numamirror_cli.launch.policy import read_caller_policy
from numamirror_cli.report.run import notice_line
outcome = read_caller_policy()
print(outcome.policy, "|", notice_line(outcome.notice) if outcome.notice else "")
"""
ALL_CALLS = ["set_mempolicy", "get_mempolicy", "mbind", "move_pages"]


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture(autouse=True)
def _needs_numa() -> None:
    if not Path("/sys/devices/system/node/node0").exists():
        pytest.skip("this kernel exposes no NUMA nodes")


def test_a_policy_that_was_set_is_the_kernels_word_and_what_a_child_inherits() -> None:
    assert run_python(INHERIT) == "preferred:0 |"
    child = (
        f"{INHERIT}\nimport subprocess, sys\n"
        f"print(subprocess.check_output([sys.executable, '-c', {READ!r}], text=True))"
    )
    assert run_python(child).splitlines()[1] == "preferred:0 |"


@pytest.mark.parametrize(("code", "name"), [(EPERM, "EPERM"), (ENOSYS, "ENOSYS")])
def test_a_refused_policy_is_one_line_with_call_cause_and_remedy(code: int, name: str) -> None:
    """Case S01."""
    policy, _, line = run_denied(["set_mempolicy", "mbind"], code, INHERIT).partition(" | ")
    assert policy == "None"
    assert line.startswith(f"running without a policy: set_mempolicy: {name}: ")
    assert line.endswith(")") and "\n" not in line
    if code == EPERM:
        assert "blocked by the container's seccomp profile" in line
        assert "CAP_SYS_NICE" in line


def test_a_policy_that_cannot_be_verified_is_not_claimed() -> None:
    said = run_denied(["get_mempolicy"], EPERM, INHERIT)
    assert said.startswith("None | policy preferred:0 was set and could not be verified")


def test_a_policy_that_cannot_be_asked_is_said_and_none_is_set() -> None:
    said = run_denied(["get_mempolicy"], EPERM, READ)
    assert said.startswith("None | running without a policy of ours")
    assert "get_mempolicy: EPERM" in said


@pytest.mark.parametrize("code", [EPERM, ENOSYS])
def test_the_program_starts_where_every_numa_call_is_refused(code: int) -> None:
    start = f"""
import os, subprocess, sys
result = subprocess.run([sys.executable, "-m", "numamirror_cli", "run", "--rehearse", "2", "--",
                         "sh", "-c", "echo ran; exit 6"], capture_output=True, text=True,
                        env={{**os.environ, "PYTHONPATH": {str(REPOSITORY)!r}}})
print(result.returncode, result.stdout.strip(), "Traceback" in result.stderr)
"""
    assert run_denied(ALL_CALLS, code, start) == "6 ran False"


@pytest.mark.parametrize(
    ("option", "policy"), [("--membind=0", "bind:0"), ("--preferred=0", "preferred:0")]
)
def test_a_policy_of_the_caller_is_kept_and_named(
    option: str, policy: str, python_script: Callable[[str], Path]
) -> None:
    """Case S09."""
    if not shutil.which("numactl"):
        pytest.skip("numactl is not installed")
    program = python_script(
        "from numamirror_cli.memory.policy import current_policy\nprint(current_policy())"
    )
    result = numamirror_run(program, before=["numactl", option])
    assert result.stdout == f"{policy}\n"
    assert f"numamirror: policy {policy} set by the caller, kept" in result.stderr


def test_an_affinity_of_the_caller_is_kept_and_named(
    python_script: Callable[[str], Path],
) -> None:
    if not shutil.which("taskset"):
        pytest.skip("taskset is not installed")
    program = python_script("print(sorted(os.sched_getaffinity(0)))")
    alone = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    if len(eval(alone)) < 2:
        pytest.skip("this process may run on one CPU only")
    one = eval(alone)[0]
    result = numamirror_run(program, before=["taskset", "-c", str(one)])
    assert eval(result.stdout) == [one]
    assert f"CPUs {one} of " in result.stderr and "are allowed, kept" in result.stderr
