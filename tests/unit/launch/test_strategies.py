"""`run --strategy`: what is asked for, what auto chooses, and what is not possible."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from numamirror_cli.engine.preload import Preload
from numamirror_cli.launch.engine_words import EngineWords, read_engine_words
from numamirror_cli.launch.environment import planned_environment
from numamirror_cli.launch.plan import Budget, Circumstances, Plan, Wishes, make_plan
from numamirror_cli.launch.strategies import Evidence, with_strategy
from numamirror_cli.machine.read import read_machine
from numamirror_cli.memory.policy import DEFAULT, Policy
from numamirror_cli.plan.bandwidth import Bandwidth, bandwidth_by_hand
from tests.unit.launch.conftest import REPOSITORY, Recorded, environment, numamirror_run

MakeRoot = Callable[..., Path]

MIB = 1 << 20
REACHED = Preload(("/x/libnumamirror.so",), True)
UNREACHED = Preload((), False, obstacle="the program is static")
TWO_NODES = {
    0: {"cpus": "0-7", "mem_mib": 1024, "free_mib": 800},
    1: {"cpus": "8-15", "mem_mib": 1024, "free_mib": 800},
}
GPU = {
    "address": "0000:82:01.0",
    "pci_class": "0x030000",
    "vendor": "0x1002",
    "numa_node": 1,
    "mem_info_vram_total": 1 << 34,
}
FIGURES = bandwidth_by_hand("local=137,remote=47.7", (0, 1))


def planned(
    root: Path,
    strategy: str = "auto",
    engine: EngineWords = EngineWords(),  # noqa: B008 (frozen)
    *,
    wishes: dict[str, Any] | None = None,
    policy: Policy | None = DEFAULT,
    bandwidth: Bandwidth | None = None,
    preload: Preload = REACHED,
    **evidence: Any,
) -> Plan:
    machine = read_machine(root, environ={})
    wished = Wishes(**(wishes or {}))
    plan = make_plan(machine, wished, Circumstances(policy, preload))
    found = Evidence(engine, bandwidth, policy, preload.entries, **evidence)
    return with_strategy(plan, machine, strategy, found)


def said(plan: Plan) -> str:
    return " / ".join(f"{note.what}: {note.why} ({note.remedy})" for note in plan.notes)


def test_a_program_whose_model_is_not_known_is_mirrored(make_root: MakeRoot) -> None:
    plan = planned(make_root(TWO_NODES))
    assert plan.strategy == "mirror"
    assert plan.choice is not None
    assert "-m" in plan.choice.would_change
    assert str(plan.policy) == "preferred:0"


def test_few_threads_with_a_model_that_fits_are_bound_to_home(make_root: MakeRoot) -> None:
    root = make_root(TWO_NODES, pci=[GPU])
    plan = planned(root, engine=EngineWords(100 * MIB, threads=8))
    assert plan.strategy == "bind"
    assert (str(plan.policy), plan.affinity) == ("bind:1", frozenset(range(8, 16)))
    assert plan.preload == ()
    assert plan.choice is not None
    assert plan.choice.would_change == "more than 8 threads"
    more = planned(root, engine=EngineWords(100 * MIB, threads=9))
    assert more.strategy == "mirror"


def test_buffers_beside_the_weights_are_reckoned_with(make_root: MakeRoot) -> None:
    """768 of 1024 MiB are available on each node; an eighth more than the weights is asked for."""
    root = make_root(TWO_NODES)
    assert planned(root, engine=EngineWords(680 * MIB, threads=8)).strategy == "bind"
    assert planned(root, engine=EngineWords(690 * MIB, threads=8)).strategy != "bind"


def test_a_model_without_room_for_a_copy_gets_the_policy_alone(make_root: MakeRoot) -> None:
    nodes = {0: TWO_NODES[0], 1: {**TWO_NODES[1], "free_mib": 0}}
    plan = planned(make_root(nodes), engine=EngineWords(300 * MIB))
    assert plan.strategy == "prefer"
    assert str(plan.policy) == "preferred:0"
    assert plan.preload == ()


# 100 MiB of node 1 are available, half of a copy of a model of 200 MiB.
HALF_A_COPY = {0: TWO_NODES[0], 1: {**TWO_NODES[1], "free_mib": 132}}


def test_a_model_that_fits_in_part_is_sharded(make_root: MakeRoot) -> None:
    nodes = {0: TWO_NODES[0], 1: {**TWO_NODES[1], "free_mib": 160}}
    plan = planned(make_root(nodes), engine=EngineWords(200 * MIB))
    assert plan.strategy == "shard"
    assert plan.choice is not None
    assert "64 % of the reads" in plan.choice.because
    assert planned_environment(plan, "")["NUMAMIRROR_STRATEGY"] == "shard"


@pytest.mark.parametrize(
    "against", [{"divides_rows": False}, {"refused": frozenset({"move_pages"})}], ids=str
)
def test_where_rows_cannot_be_placed_a_part_is_mirrored(
    make_root: MakeRoot, against: dict[str, Any]
) -> None:
    """In ik_llama.cpp threads cannot be held to rows; under Podman's filter pages do not move."""
    plan = planned(make_root(HALF_A_COPY), engine=EngineWords(200 * MIB), **against)
    assert plan.strategy == "mirror"
    assert plan.choice is not None
    assert "50 % of the reads" in plan.choice.because


POLICY_CALLS = frozenset({"get_mempolicy", "set_mempolicy", "mbind"})


def test_where_all_policy_calls_are_refused_the_program_runs_as_it_is(make_root: MakeRoot) -> None:
    """As under Docker's filter without CAP_SYS_NICE: where a copy lands would not be known."""
    root = make_root(TWO_NODES)
    plan = planned(root, engine=EngineWords(MIB, 4), policy=None, refused=POLICY_CALLS)
    assert (plan.strategy, plan.policy, plan.preload) == ("none", None, ())
    assert plan.choice is not None
    assert "get_mempolicy, set_mempolicy, mbind" in plan.choice.because
    assert planned(root, "mirror", policy=None, refused=POLICY_CALLS).strategy == "mirror"


@pytest.mark.parametrize("call", sorted(POLICY_CALLS))
def test_where_one_policy_call_is_refused_copies_are_made_all_the_same(
    make_root: MakeRoot, call: str
) -> None:
    policy = None if call == "get_mempolicy" else DEFAULT
    engine = EngineWords(100 * MIB)
    plan = planned(make_root(TWO_NODES), engine=engine, policy=policy, refused=frozenset({call}))
    assert plan.strategy == "mirror"


def test_measured_figures_decide(make_root: MakeRoot) -> None:
    plan = planned(make_root(TWO_NODES), engine=EngineWords(100 * MIB), bandwidth=FIGURES)
    assert plan.strategy == "mirror"
    assert plan.choice is not None
    assert "times the speed of interleave" in plan.choice.because
    assert plan.choice.would_change == "less free memory: then shard"


@pytest.mark.parametrize("wish", [{"budget": Budget(bytes=300 * MIB)}, {"adapt": 256}])
def test_whoever_says_what_to_copy_gets_copies(make_root: MakeRoot, wish: dict[str, Any]) -> None:
    root, engine = make_root(TWO_NODES), EngineWords(900 * MIB, threads=16)
    assert planned(root, engine=engine).strategy != "mirror"
    plan = planned(root, engine=engine, wishes=wish)
    assert plan.strategy == "mirror" and plan.choice is None


def test_copies_per_socket_are_what_was_asked_for(make_root: MakeRoot) -> None:
    nodes = {n: {"cpus": f"{4 * n}-{4 * n + 3}"} for n in range(4)}
    root = make_root(nodes, packages={"0-7": 0, "8-15": 1})
    engine = EngineWords(100 * MIB, threads=4)
    assert planned(root, engine=engine, wishes={"per": "socket"}).strategy == "mirror"
    assert planned(root, engine=engine).strategy == "bind"


def test_a_policy_of_the_caller_rules_bind_and_interleave_out(make_root: MakeRoot) -> None:
    caller = Policy("interleave", frozenset({0, 1}))
    root = make_root(TWO_NODES)
    few = EngineWords(100 * MIB, threads=4)
    assert planned(root, engine=few, policy=caller).strategy == "mirror"
    for strategy, preload in (("bind", REACHED), ("interleave", UNREACHED)):
        plan = planned(root, strategy, policy=caller, preload=preload)
        assert plan.strategy != strategy
        assert f"--strategy {strategy} is not possible" in said(plan)
        assert "interleave:0-1 set by the caller is kept" in said(plan)


@pytest.mark.parametrize("pci", [[], [GPU]], ids=["no GPU", "GPU"])
def test_interleave_is_of_the_weights_alone(make_root: MakeRoot, pci: list[Any]) -> None:
    """The process's own policy stays that of home, where a GPU's pinned buffers belong."""
    plan = planned(make_root(TWO_NODES, pci=pci), "interleave")
    assert (plan.strategy, plan.uses_shim, plan.mirrors) == ("interleave", True, False)
    assert planned_environment(plan, "")["NUMAMIRROR_STRATEGY"] == "interleave"
    assert str(plan.policy) == f"preferred:{1 if pci else 0}"


def test_without_the_shim_the_process_is_interleaved_where_there_is_no_gpu(
    make_root: MakeRoot,
) -> None:
    plan = planned(make_root(TWO_NODES), "interleave", preload=UNREACHED)
    assert (plan.strategy, str(plan.policy)) == ("interleave", "interleave:0-1")
    assert not plan.uses_shim
    assert "all memory of the process" in plan.reason
    assert "static" in plan.reason


@pytest.mark.parametrize("there", ["in the machine", "on the command line"])
def test_a_process_that_uses_a_gpu_is_never_interleaved_as_a_whole(
    make_root: MakeRoot, there: str
) -> None:
    pci = [GPU] if there == "in the machine" else []
    engine = EngineWords(100 * MIB, uses_gpus=there == "on the command line")
    plan = planned(make_root(TWO_NODES, pci=pci), "interleave", engine, preload=UNREACHED)
    assert plan.strategy == "prefer"
    assert plan.policy is not None
    assert plan.policy.mode == "preferred"
    assert "not spread where a GPU pins its buffers" in said(plan)


def test_prefer_and_none_leave_the_shim_out(make_root: MakeRoot) -> None:
    root = make_root(TWO_NODES)
    prefer, none = planned(root, "prefer"), planned(root, "none")
    assert (prefer.strategy, str(prefer.policy), prefer.preload) == ("prefer", "preferred:0", ())
    assert (none.strategy, none.policy, none.preload) == ("none", None, ())


@pytest.mark.parametrize("strategy", ["shard", "observe"])
def test_the_shim_is_told_what_to_do_instead_of_mirroring(
    make_root: MakeRoot, strategy: str
) -> None:
    plan = planned(make_root(TWO_NODES), strategy)
    assert plan.strategy == strategy
    assert planned_environment(plan, "")["NUMAMIRROR_STRATEGY"] == strategy
    assert (plan.policy is None) == (strategy == "observe")


def test_on_one_node_there_is_nothing_to_shard_and_something_to_observe(
    make_root: MakeRoot,
) -> None:
    root = make_root({0: {"cpus": "0-7"}})
    assert "--strategy shard is not possible" in said(planned(root, "shard"))
    observed = planned_environment(planned(root, "observe"), "")
    assert observed["NUMAMIRROR_COPIES"] == "0=0-7"
    assert planned(root, "auto").choice is None


def test_all_nodes_are_observed_whatever_policy_the_caller_set(make_root: MakeRoot) -> None:
    caller = Policy("bind", frozenset({0}))
    plan = planned(make_root(TWO_NODES), "observe", policy=caller)
    assert planned_environment(plan, "")["NUMAMIRROR_COPIES"] == "0=0-7;1=8-15"


def test_bind_warns_of_threads_that_would_share_cores(make_root: MakeRoot) -> None:
    root = make_root(TWO_NODES)
    assert "give it -t 8" in said(planned(root, "bind"))
    assert "started with -t 16" in said(planned(root, "bind", EngineWords(MIB, threads=16)))
    assert "give it" not in said(planned(root, "bind", EngineWords(MIB, threads=8)))


def test_bind_takes_no_cores_away_where_there_is_but_one_node(make_root: MakeRoot) -> None:
    plan = planned(make_root({0: TWO_NODES[0]}), "bind")
    assert plan.strategy == "bind"
    assert "cores are left" not in said(plan)


def test_bind_warns_of_a_model_that_the_kernel_would_end(make_root: MakeRoot) -> None:
    plan = planned(make_root(TWO_NODES), "bind", EngineWords(900 * MIB, threads=8))
    assert plan.strategy == "bind"
    assert "the kernel ends the program" in said(plan)


def test_model_and_threads_are_read_from_the_command_line(tmp_path: Path) -> None:
    model = tmp_path / "model-00001-of-00002.gguf"
    for part in (model, tmp_path / "model-00002-of-00002.gguf"):
        part.write_bytes(b"x" * 1000)
    words = ["serve.py", "-m", str(model), "-t", "6", "-ngl", "9"]
    assert read_engine_words(words) == EngineWords(2000, 6, True)
    assert read_engine_words(["-t", "6"]) == EngineWords()
    assert read_engine_words(["-m", str(tmp_path / "absent.gguf"), "-t", "6"]) == EngineWords()
    assert read_engine_words(["-m", str(model), "-t", "many"]) == EngineWords()


WHAT_HOLDS = """
import json, os
from numamirror_cli.memory.policy import current_policy
print(json.dumps([str(current_policy()), sorted(os.sched_getaffinity(0))]))
"""


def test_bind_is_what_the_child_finds(record: Recorded) -> None:
    done = numamirror_run(
        "--strategy", "bind", "--json", record.path, "--", sys.executable, "-c", WHAT_HOLDS
    )
    assert done.returncode == 0
    policy, cpus = json.loads(done.stdout)
    plan = record.read()["plan"]
    if plan["strategy"] != "bind":
        pytest.skip(f"no policy can be set here: {plan['notes']}")
    assert policy == plan["policy"] == f"bind:{plan['home']['node']}"
    assert set(cpus) <= os.sched_getaffinity(0)
    assert f"bound to node {plan['home']['node']}" in done.stderr
    assert "NOT mirrored" not in done.stderr


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        ("sched_setaffinity", "threads keep the CPUs that they had: sched_setaffinity: EPERM"),
        ("sched_getaffinity", "could not be verified: sched_getaffinity: EPERM"),
        ("set_mempolicy", "running without a policy: set_mempolicy: EPERM"),
    ],
)
def test_what_the_kernel_refused_of_bind_is_said_and_nothing_is_called_bound(
    refused: str, said: str, record: Recorded
) -> None:
    """A real filter around launcher and program, which runs all the same."""
    under = (sys.executable, str(REPOSITORY / "tests/reliability/refuse.py"), f"{refused}=EPERM")
    bind = ("--strategy", "bind", "--json", record.path, "--", "true")
    done = numamirror_run(*bind, before=(*under, "--"))
    if "no seccomp filter" in done.stderr:
        pytest.skip("this kernel installs no seccomp filter")
    plan, [verdict] = record.read()["plan"], record.read()["verdict"]
    if plan["strategy"] != "bind":
        pytest.skip(f"no policy can be set here: {plan['notes']}")
    assert said in done.stderr
    assert "bound to" not in done.stderr
    assert verdict["level"] == "warn"
    assert verdict["text"].startswith("bind, but ") and said in verdict["text"]


def test_the_strategies_are_named_where_one_is_unknown() -> None:
    done = numamirror_run("--strategy", "magic", "true", env=environment())
    assert done.returncode == 2
    for name in ("auto", "mirror", "shard", "prefer", "interleave", "bind", "none"):
        assert name in done.stderr


@pytest.mark.parametrize("strategy", ["bind", "interleave"])
def test_where_the_kernel_does_not_say_which_policy_stands_none_is_set(
    make_root: MakeRoot, strategy: str
) -> None:
    plan = planned(make_root(TWO_NODES), strategy, policy=None, preload=UNREACHED)
    assert plan.policy is None and plan.strategy == "prefer"
    [note] = [note for note in plan.notes if "is not possible" in note.what]
    assert note.what == f"--strategy {strategy} is not possible"
    assert note.why == "the kernel does not say which policy stands"
