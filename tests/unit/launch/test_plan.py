"""The plan for machines of every kind: which copies, which home, which policy, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from numamirror_cli.engine.preload import Preload
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.launch.environment import child_environment, planned_environment, spell_copies
from numamirror_cli.launch.plan import Budget, Circumstances, Plan, Wishes, make_plan
from numamirror_cli.machine.model import Machine
from numamirror_cli.machine.read import read_machine
from numamirror_cli.memory.policy import DEFAULT, Policy
from numamirror_cli.notice import Notice

MakeRoot = Callable[..., Path]

REACHED = Preload(("/x/libnumamirror.so",), True)
UNREACHED = Preload(("/x/libnumamirror.so",), False, Notice("engine: cannot preload, policy only"))
MUSL = Preload((), False, Notice("engine: cannot preload, policy only"))

NO_WISHES = Wishes()
TWO_NODES = {0: {"cpus": "0-7"}, 1: {"cpus": "8-15"}}
FOUR_NODES = {n: {"cpus": f"{4 * n}-{4 * n + 3}"} for n in range(4)}
FOUR_DISTANCES = [[10, 11, 21, 21], [11, 10, 21, 21], [21, 21, 10, 11], [21, 21, 11, 10]]


def gpu(address: str, node: int) -> dict[str, Any]:
    return {
        "address": address,
        "pci_class": "0x030000",
        "vendor": "0x1002",
        "numa_node": node,
        "mem_info_vram_total": 1 << 34,
    }


def plan_for(
    machine: Machine,
    wishes: Wishes = NO_WISHES,
    *,
    preload: Preload = REACHED,
    policy: Policy | None = DEFAULT,
    home_variable: str = "",
) -> Plan:
    return make_plan(machine, wishes, Circumstances(policy, preload, home_variable))


def read(root: Path) -> Machine:
    return read_machine(root, environ={})


def said(plan: Plan) -> str:
    return " / ".join(f"{note.what}: {note.why}" for note in plan.notes)


def test_two_nodes_get_one_copy_each_and_policy_preferred_home(make_root: MakeRoot) -> None:
    plan = plan_for(read(make_root(TWO_NODES)))
    assert (plan.strategy, plan.reason) == ("mirror", "2 nodes, one copy each")
    assert spell_copies(plan.copies) == "0=0-7;1=8-15"
    assert str(plan.policy) == "preferred:0"
    assert plan.notes == ()


def test_home_is_where_the_gpus_are(make_root: MakeRoot) -> None:
    devices = [gpu("0000:82:01.0", 1), gpu("0000:82:02.0", 1)]
    plan = plan_for(read(make_root(TWO_NODES, pci=devices)))
    assert plan.home.node == 1
    assert plan.home.reason == "2 of 2 GPUs are there (0000:82:01.0, 0000:82:02.0)"
    assert str(plan.policy) == "preferred:1"


def test_home_named_by_option_or_variable_is_taken(make_root: MakeRoot) -> None:
    machine = read(make_root(TWO_NODES))
    assert plan_for(machine, Wishes(home=1)).home.node == 1
    assert plan_for(machine, home_variable="1").home.node == 1
    assert plan_for(machine, Wishes(home=0), home_variable="1").home.node == 0


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        (Wishes(home=2), ["--home 2", "nodes 0-1"]),
        (Wishes(nodes=frozenset({0, 5})), ["no node 5", "nodes 0-1"]),
        (Wishes(home=1, nodes=frozenset({0})), ["--home 1", "not among the chosen nodes (0)"]),
    ],
)
def test_unknown_nodes_are_bad_usage_and_the_nodes_are_named(
    make_root: MakeRoot, wishes: Wishes, words: list[str]
) -> None:
    with pytest.raises(NumaMirrorError) as caught:
        plan_for(read(make_root(TWO_NODES)), wishes)
    assert caught.value.exit_code == 2
    message = f"{caught.value.message} {caught.value.hint}"
    assert all(word in message for word in words), message


def test_a_home_that_is_not_allowed_is_bad_usage(make_root: MakeRoot) -> None:
    status = {"Cpus_allowed_list": "0-15", "Mems_allowed_list": "1"}
    machine = read(make_root(TWO_NODES, status=status))
    with pytest.raises(NumaMirrorError) as caught:
        plan_for(machine, Wishes(home=0))
    assert caught.value.exit_code == 2
    assert "node 0 is not in Mems_allowed_list (1)" in caught.value.message


def test_a_standing_wish_for_a_home_that_is_not_allowed_does_not_keep_it_from_starting(
    make_root: MakeRoot,
) -> None:
    """Case S02."""
    status = {"Cpus_allowed_list": "0-15", "Mems_allowed_list": "1"}
    plan = plan_for(read(make_root(TWO_NODES, status=status)), home_variable="0")
    assert plan.home.node == 1
    assert "node 0 is not in Mems_allowed_list (1)" in plan.home.reason


def test_one_node_has_nothing_to_mirror_and_nothing_is_touched(make_root: MakeRoot) -> None:
    plan = plan_for(read(make_root({0: {"cpus": "0-7"}})))
    assert plan.strategy == "none" and "nothing to mirror" in plan.reason
    assert plan.policy is None
    assert planned_environment(plan, "@x") == {}
    assert child_environment(plan, "@x", {"A": "1"}) == {"A": "1"}


def test_a_kernel_without_nodes_has_nothing_to_mirror(tmp_path: Path) -> None:
    plan = plan_for(read(tmp_path))
    assert plan.strategy == "none" and "no NUMA nodes" in plan.reason
    assert plan.home.node is None and plan.copies == ()


def test_one_node_with_cpus_and_more_memory_prefers_the_cpus_node(make_root: MakeRoot) -> None:
    machine = read(make_root({0: {"cpus": "0-7"}, 1: {"cpus": ""}}))
    plan = plan_for(machine)
    assert plan.strategy == "prefer" and str(plan.policy) == "preferred:0"
    assert plan.preload == ()


def test_an_allowed_subset_of_cpus_is_kept_and_named(make_root: MakeRoot) -> None:
    """Cases M02 and M05: no copy where no CPU of ours reads."""
    status = {"Cpus_allowed_list": "2-5", "Mems_allowed_list": "0-1"}
    plan = plan_for(read(make_root(TWO_NODES, status=status)))
    assert plan.strategy == "prefer"
    assert spell_copies(plan.copies) == "0=2-5"
    assert "CPUs 2-5 of 0-15 are allowed, kept" in said(plan)
    assert "node 1: no allowed CPU" in said(plan)


def test_cpus_of_a_node_without_memory_read_the_nearest_copy(make_root: MakeRoot) -> None:
    nodes = {0: {"cpus": "0-3", "mem_mib": 0}, 1: {"cpus": "4-7"}, 2: {"cpus": "8-11"}}
    distances = [[10, 30, 20], [30, 10, 20], [20, 20, 10]]
    plan = plan_for(read(make_root(nodes, distances=distances)))
    assert spell_copies(plan.copies) == "1=4-7;2=0-3,8-11"


def test_nodes_narrows_the_copies_and_all_cpus_still_read_one(make_root: MakeRoot) -> None:
    machine = read(make_root(FOUR_NODES, distances=FOUR_DISTANCES))
    plan = plan_for(machine, Wishes(nodes=frozenset({1, 2})))
    assert spell_copies(plan.copies) == "1=0-7;2=8-15"
    assert plan.home.node == 1


def test_nodes_without_the_gpus_node_elects_among_the_rest(make_root: MakeRoot) -> None:
    devices = [gpu("0000:82:01.0", 3), gpu("0000:02:00.0", 2), gpu("0000:83:01.0", 3)]
    machine = read(make_root(FOUR_NODES, distances=FOUR_DISTANCES, pci=devices))
    assert plan_for(machine).home.node == 3
    plan = plan_for(machine, Wishes(nodes=frozenset({0, 2})))
    assert plan.home.node == 2
    assert "among nodes 0,2" in plan.home.reason


def test_nodes_with_one_node_is_no_mirror(make_root: MakeRoot) -> None:
    plan = plan_for(read(make_root(TWO_NODES)), Wishes(nodes=frozenset({1})))
    assert plan.strategy == "prefer" and "--nodes names one node" in plan.reason
    assert str(plan.policy) == "preferred:1"


def test_memory_without_cpus_is_used_when_named(make_root: MakeRoot) -> None:
    """Case M08: HBM."""
    nodes = {0: {"cpus": "0-3"}, 1: {"cpus": "4-7"}, 2: {"cpus": ""}, 3: {"cpus": ""}}
    distances = [[10, 21, 13, 23], [21, 10, 23, 13], [13, 23, 10, 23], [23, 13, 23, 10]]
    machine = read(make_root(nodes, distances=distances))
    assert spell_copies(plan_for(machine).copies) == "0=0-3;1=4-7"
    named = plan_for(machine, Wishes(nodes=frozenset({2, 3})))
    assert spell_copies(named.copies) == "2=0-3;3=4-7"
    idle = plan_for(machine, Wishes(nodes=frozenset({0, 1, 2})))
    assert spell_copies(idle.copies) == "0=0-3;1=4-7"
    assert "node 2: no CPU is nearest to it, it gets no copy" in said(idle)


def test_per_socket_makes_one_copy_per_socket_over_its_nodes(make_root: MakeRoot) -> None:
    machine = read(make_root(FOUR_NODES, distances=FOUR_DISTANCES))
    plan = plan_for(machine, Wishes(per="socket"))
    assert spell_copies(plan.copies) == "0,1=0-7;2,3=8-15"
    assert plan.reason == "2 sockets, one copy each"
    assert "--per socket makes 2 copies instead of 4" in said(plan_for(machine))


def test_a_policy_that_the_caller_set_is_kept(make_root: MakeRoot) -> None:
    machine = read(make_root(TWO_NODES))
    plan = plan_for(machine, policy=Policy("interleave", frozenset({0, 1})))
    assert plan.policy is None and str(plan.caller_policy) == "interleave:0-1"
    assert plan.strategy == "mirror"


def test_a_preferred_node_of_the_caller_is_home(make_root: MakeRoot) -> None:
    plan = plan_for(read(make_root(TWO_NODES)), policy=Policy("preferred", frozenset({1})))
    assert plan.home.node == 1 and "policy preferred:1 set by the caller" in plan.home.reason
    assert plan.policy is None and plan.strategy == "mirror"


def test_a_caller_that_binds_memory_gets_no_copy_elsewhere(make_root: MakeRoot) -> None:
    """Case S09: numactl --membind=1."""
    plan = plan_for(read(make_root(TWO_NODES)), policy=Policy("bind", frozenset({1})))
    assert spell_copies(plan.copies) == "1=0-15"
    assert plan.strategy == "prefer" and plan.policy is None
    assert str(plan.caller_policy) == "bind:1"
    assert "no copy on node 0: policy bind:1 set by the caller" in said(plan)


def test_home_against_the_callers_policy_is_named(make_root: MakeRoot) -> None:
    plan = plan_for(
        read(make_root(TWO_NODES)), Wishes(home=0), policy=Policy("preferred", frozenset({1}))
    )
    assert plan.home.node == 0
    assert "--home 0: the primary will not lie there by itself" in said(plan)


def test_a_policy_that_cannot_be_asked_is_not_overridden(make_root: MakeRoot) -> None:
    plan = plan_for(read(make_root(TWO_NODES)), policy=None)
    assert plan.policy is None and plan.strategy == "mirror"


@pytest.mark.parametrize("preload", [UNREACHED, MUSL])
def test_a_program_that_cannot_be_preloaded_gets_the_policy(
    make_root: MakeRoot, preload: Preload
) -> None:
    plan = plan_for(read(make_root(TWO_NODES)), preload=preload)
    assert plan.strategy == "prefer" and str(plan.policy) == "preferred:0"
    assert "engine: cannot preload, policy only" in said(plan)
    assert plan.preload == preload.entries


@pytest.mark.parametrize("nodes", [TWO_NODES, {0: {"cpus": "0-7"}}], ids=["two", "one"])
def test_a_rehearsal_is_labelled_and_sets_no_policy(
    make_root: MakeRoot, nodes: dict[int, dict[str, Any]]
) -> None:
    plan = plan_for(read(make_root(nodes)), Wishes(rehearse=3, copy_home=True))
    assert plan.strategy == "mirror" and plan.reason.startswith("rehearsal: 3 pretend nodes")
    assert plan.policy is None
    assert planned_environment(plan, "@e") == {
        "NUMAMIRROR_ABI": "1",
        "NUMAMIRROR_MIN_BYTES": "1048576",
        "NUMAMIRROR_REHEARSE": "3",
        "NUMAMIRROR_HOME_NODE": "0",
        "NUMAMIRROR_COPY_HOME": "1",
        "NUMAMIRROR_EVENTS": "@e",
    }


def test_the_environment_is_that_of_the_protocol(make_root: MakeRoot) -> None:
    plan = plan_for(read(make_root(TWO_NODES)), Wishes(home=1, min_bytes=4096))
    assert planned_environment(plan, "") == {
        "NUMAMIRROR_ABI": "1",
        "NUMAMIRROR_MIN_BYTES": "4096",
        "NUMAMIRROR_COPIES": "0=0-7;1=8-15",
        "NUMAMIRROR_HOME_NODE": "1",
    }


def test_budget_and_no_heal_reach_the_shim(make_root: MakeRoot) -> None:
    nodes = {0: {"cpus": "0-7", "mem_mib": 4096}, 1: {"cpus": "8-15", "mem_mib": 2048}}
    machine = read(make_root(nodes))
    by_size = plan_for(machine, Wishes(heal=False, budget=Budget(bytes=1 << 30)))
    assert planned_environment(by_size, "")["NUMAMIRROR_BUDGET_BYTES"] == str(1 << 30)
    assert planned_environment(by_size, "")["NUMAMIRROR_HEAL"] == "0"
    by_share = plan_for(machine, Wishes(budget=Budget(share=0.25)))
    assert planned_environment(by_share, "")["NUMAMIRROR_BUDGET_BYTES"] == str(512 << 20)
    assert "NUMAMIRROR_HEAL" not in planned_environment(by_share, "")
    assert "NUMAMIRROR_ADAPT" not in planned_environment(by_share, "")
    adapting = plan_for(machine, Wishes(adapt=256))
    assert planned_environment(adapting, "")["NUMAMIRROR_ADAPT"] == "256"


def test_pinned_threads_are_given_the_first_cpu_of_each_core(make_root: MakeRoot) -> None:
    unequal = {0: {"cpus": "0-2,8-10", "mem_mib": 1024}, 1: {"cpus": "3,11", "mem_mib": 1024}}
    root = make_root(unequal)
    for core in range(4):
        for cpu in (core, core + 8):
            topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
            topology.mkdir(parents=True, exist_ok=True)
            (topology / "core_cpus_list").write_text(f"{core},{core + 8}\n")
    plan = plan_for(read(root), Wishes(pin=True))
    assert planned_environment(plan, "")["NUMAMIRROR_CORES"] == "0-3"
    assert planned_environment(plan, "")["NUMAMIRROR_COPIES"] == "0=0-2,8-10;1=3,11"
    assert "NUMAMIRROR_CORES" not in planned_environment(plan_for(read(root)), "")


def test_a_share_as_budget_is_never_taken_for_no_budget(make_root: MakeRoot) -> None:
    share = Budget(share=0.5)
    one_node = read(make_root({0: {"cpus": "0-7", "mem_mib": 4096}}))
    rehearsal = plan_for(one_node, Wishes(rehearse=2, budget=share))
    assert planned_environment(rehearsal, "")["NUMAMIRROR_BUDGET_BYTES"] == str(2048 << 20)
    unknown = replace(one_node, nodes=tuple(replace(n, mem_total=None) for n in one_node.nodes))
    plan = plan_for(unknown, Wishes(rehearse=2, budget=share))
    assert plan.budget_bytes is None
    assert any(note.what == "--budget 50%: left out" for note in plan.notes)


def test_more_copies_than_the_shim_can_hold_are_not_begun(make_root: MakeRoot) -> None:
    machine = read(make_root({n: {"cpus": f"{n}"} for n in range(66)}))
    plan = plan_for(machine)
    assert plan.strategy == "prefer" and "66 copies are more than 64" in plan.reason
    assert plan_for(machine, Wishes(nodes=frozenset(range(64)))).mirrors


def test_preloads_and_library_path_of_the_user_are_kept(make_root: MakeRoot) -> None:
    """Case S06."""
    plan = plan_for(read(make_root(TWO_NODES)))
    environ = {"LD_PRELOAD": "/x/libjemalloc.so", "LD_LIBRARY_PATH": "/y", "PATH": "/bin"}
    child = child_environment(plan, "", environ)
    assert child["LD_PRELOAD"] == "/x/libjemalloc.so:/x/libnumamirror.so"
    assert child["LD_LIBRARY_PATH"] == "/y" and child["PATH"] == "/bin"


def test_what_another_launcher_around_us_set_does_not_reach_our_child(make_root: MakeRoot) -> None:
    plan = plan_for(read(make_root(TWO_NODES)))
    environ = {"NUMAMIRROR_REHEARSE": "2", "NUMAMIRROR_EVENTS": "@outer", "NUMAMIRROR_LOG": "1"}
    child = child_environment(plan, "@ours", environ)
    assert "NUMAMIRROR_REHEARSE" not in child
    assert (child["NUMAMIRROR_EVENTS"], child["NUMAMIRROR_LOG"]) == ("@ours", "1")


def test_every_real_machine_gets_a_plan_that_covers_its_cpus(
    unpacked_dump: Callable[[str], Path], shared_dir: Path
) -> None:
    names = [path.name.removesuffix(".tar.xz") for path in shared_dir.glob("topologies/*.tar.xz")]
    assert len(names) >= 12
    for name in names:
        machine = read(unpacked_dump(name))
        for per in ("node", "socket"):
            plan = plan_for(machine, Wishes(per=per))
            allowed = frozenset().union(*(node.allowed_cpus for node in machine.nodes))
            readers = [cpu for copy in plan.copies for cpu in copy.cpus]
            assert sorted(readers) == sorted(allowed), name
            if plan.mirrors:
                assert any(plan.home.node in copy.nodes for copy in plan.copies), name


def test_the_home_variable_may_name_memory_without_cpus_and_nodes_that_are_chosen_beat_it(
    make_root: MakeRoot,
) -> None:
    machine = read(make_root({**TWO_NODES, 2: {"cpus": ""}}))
    plan = plan_for(machine, home_variable="2")
    assert (plan.home.node, str(plan.policy)) == (2, "preferred:2")
    chosen = plan_for(machine, Wishes(nodes=frozenset({0, 1})), home_variable="2")
    assert chosen.home.node == 0
