"""What is said when the kernel, or a sandbox in its place, refuses a call or only pretends.

Each fault is a real seccomp filter's (tests/reliability/refuse.py).
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.memory.under_seccomp import EINVAL, EPERM, PRETEND, run_denied

REPOSITORY = Path(__file__).resolve().parents[2]

# Prints what a function of ours says of a file, or its error.
ABOUT_A_FILE = """
import os
from pathlib import Path
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.memory.cache_actions import evict, warm
from numamirror_cli.memory.page_cache import read_cache_state
from numamirror_cli.memory.pages import locate_pages
from numamirror_cli.memory.policy import DEFAULT
from numamirror_cli.memory.status_page import read_status
file = Path({file!r})
try:
    print({call})
except NumaMirrorError as error:
    print(error.message)
"""
FIRST_CPU = min(os.sched_getaffinity(0))
AFFINITY = f"""
from numamirror_cli.launch.affinity import inherit_affinity
from numamirror_cli.report.run import notice_line
print(notice_line(inherit_affinity([{FIRST_CPU}])))
"""
TRIALS = """
from numamirror_cli.memory.seccomp import try_our_calls
print(*try_our_calls().refused)
"""
POLICY = """
from numamirror_cli.launch.policy import inherit_policy
from numamirror_cli.memory.policy import Policy
from numamirror_cli.report.run import notice_line
outcome = inherit_policy(Policy("bind", frozenset({0})))
print(outcome.policy, "|", notice_line(outcome.notice))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"x" * 100_000)
    return path


def test_a_refused_affinity_leaves_the_program_where_it_was() -> None:
    said = run_denied(["sched_setaffinity"], EPERM, AFFINITY)
    assert said == "threads keep the CPUs that they had: sched_setaffinity: EPERM"


def test_an_affinity_that_nobody_confirms_is_said_to_be_unverified() -> None:
    """It was set: that the threads keep what they had would not be true."""
    said = run_denied(["sched_getaffinity"], EPERM, AFFINITY)
    assert said == (
        f"CPUs {FIRST_CPU} were set for all threads and could not be verified: "
        "sched_getaffinity: EPERM"
    )


def test_an_affinity_that_did_not_hold_is_not_called_set() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: no affinity differs from another")
    said = run_denied(["sched_setaffinity"], PRETEND, AFFINITY)
    assert said.startswith("threads may run on CPUs ")
    assert said.endswith(f", not {FIRST_CPU}")


@pytest.mark.parametrize(
    ("refused", "named"), [("sched_setaffinity", "sched_setaffinity"), ("sched_getaffinity", "")]
)
def test_the_call_that_a_filter_refuses_is_named_and_no_other(refused: str, named: str) -> None:
    """The launcher can do without the second."""
    assert run_denied([refused], EPERM, TRIALS) == named


def test_a_policy_that_did_not_hold_is_not_called_set() -> None:
    said = run_denied(["set_mempolicy"], PRETEND, POLICY)
    assert said == "default | the memory policy is default, not bind:0"


def test_a_policy_that_the_kernel_finds_invalid_is_said_to_be_so() -> None:
    said = run_denied(["set_mempolicy"], EINVAL, POLICY)
    assert said == (
        "None | running without a policy: set_mempolicy: EINVAL: "
        "the kernel does not accept that policy here"
    )


def test_doctor_says_for_what_a_filter_kills_and_is_not_killed(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    refuse = [sys.executable, REPOSITORY / "tests/reliability/refuse.py"]
    filtered = [*refuse, "mbind=KILL", "get_mempolicy=KILL", "--"]
    doctor = [sys.executable, "-m", "numamirror_cli", "doctor", "--", "true", "-m", model]
    done = subprocess.run([*filtered, *doctor], cwd=REPOSITORY, capture_output=True, text=True)
    if "no seccomp filter" in done.stderr:
        pytest.skip("this kernel installs no seccomp filter")
    said = " ".join(done.stdout.split())
    assert done.returncode == 1
    assert "bad policy calls a seccomp filter kills for get_mempolicy, mbind" in said
    assert "was not read: a seccomp filter kills for calls that this makes" in said


def test_plan_says_for_what_a_filter_kills_and_is_not_killed(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    refuse = [sys.executable, REPOSITORY / "tests/reliability/refuse.py", "mbind=KILL", "--"]
    plan = [sys.executable, "-m", "numamirror_cli", "plan", model]
    done = subprocess.run([*refuse, *plan], cwd=REPOSITORY, capture_output=True, text=True)
    if "no seccomp filter" in done.stderr:
        pytest.skip("this kernel installs no seccomp filter")
    assert done.returncode > 0
    assert "a seccomp filter kills for mbind" in " ".join(done.stderr.split())


def test_a_bench_whose_threads_cannot_be_placed_measures_nothing(tmp_path: Path) -> None:
    program = REPOSITORY / "tests/reliability/refuse.py"
    bench = [sys.executable, "-m", "numamirror_cli", "bench", "--seconds", "0.05"]
    done = subprocess.run(
        [sys.executable, program, "sched_setaffinity=EPERM", "--", *bench],
        cwd=REPOSITORY,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if "no seccomp filter" in done.stderr:
        pytest.skip("this kernel installs no seccomp filter")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("numamirror: nothing could be measured: starting a thread on ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("refused", "code", "call", "says"),
    [
        (
            "move_pages",
            errno.E2BIG,
            "locate_pages(0, [4096])",
            "move_pages on this process: Argument list too long",
        ),
        (
            "mincore",
            errno.EAGAIN,
            "read_cache_state(file)",
            "{file}: which of its pages are cached could not be asked "
            "(mincore: Resource temporarily unavailable)",
        ),
        ("fadvise64", EPERM, "evict(file)", "{file}: cannot be dropped: Operation not permitted"),
        ("preadv2", errno.EIO, "warm(file, DEFAULT)", "{file}: Input/output error at byte 0"),
        (
            "pread64",
            errno.EIO,
            "read_status(os.open(file, os.O_RDONLY))",
            "the shim's status page cannot be read: Input/output error",
        ),
    ],
)
def test_a_refused_look_at_memory_or_a_file_is_one_line(
    file: Path, refused: str, code: int, call: str, says: str
) -> None:
    source = ABOUT_A_FILE.format(file=str(file), call=call)
    assert run_denied([refused], code, source) == says.format(file=file)
