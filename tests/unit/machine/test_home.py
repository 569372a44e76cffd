"""The home node: what the user names, what the environment names, and bad names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.machine.home import choose_home
from numamirror_cli.machine.mirror import choose_nodes
from numamirror_cli.machine.model import Home, Machine
from numamirror_cli.machine.read import read_machine

MakeRoot = Callable[..., Path]

NODES = {
    0: {"cpus": "0-3"},
    2: {"cpus": "4-7"},
    3: {"cpus": "8-11", "mem_mib": 0},
    5: {"cpus": ""},
}


@pytest.fixture
def machine(make_root: MakeRoot) -> Machine:
    return read_machine(make_root(NODES), environ={})


def refusal(action: Callable[[], object]) -> NumaMirrorError:
    with pytest.raises(NumaMirrorError) as caught:
        action()
    assert caught.value.exit_code == 2
    assert caught.value.hint == "usable here: nodes 0,2,5"
    return caught.value


def test_without_gpus_the_lowest_mirror_node_is_home(machine: Machine) -> None:
    assert choose_home(machine, None, environ={}) == Home(0, "no GPU, lowest mirror node")


def test_the_option_beats_the_environment(machine: Machine) -> None:
    home = choose_home(machine, 2, environ={"NUMAMIRROR_HOME": "0"})
    assert home == Home(2, "named with --home")


def test_the_environment_beats_the_election(machine: Machine) -> None:
    home = choose_home(machine, None, environ={"NUMAMIRROR_HOME": "2"})
    assert home == Home(2, "named in NUMAMIRROR_HOME")


def test_an_empty_variable_is_no_wish(machine: Machine) -> None:
    assert choose_home(machine, None, environ={"NUMAMIRROR_HOME": ""}).node == 0


def test_memory_without_cpus_can_be_home_when_named(machine: Machine) -> None:
    assert choose_home(machine, 5, environ={}).node == 5


def test_an_unknown_home_names_the_nodes_there_are(machine: Machine) -> None:
    error = refusal(lambda: choose_home(machine, 1, environ={}))
    assert error.message == "--home 1: there is no node 1: this machine has nodes 0,2-3,5"


def test_an_unknown_home_in_the_environment_is_an_error_too(machine: Machine) -> None:
    error = refusal(lambda: choose_home(machine, None, environ={"NUMAMIRROR_HOME": "7"}))
    assert error.message.startswith("NUMAMIRROR_HOME=7: there is no node 7")


@pytest.mark.parametrize("text", ["one", "-1", "1.5", "²", "9" * 5000])
def test_a_home_that_is_no_number_is_named(machine: Machine, text: str) -> None:
    error = refusal(lambda: choose_home(machine, None, environ={"NUMAMIRROR_HOME": text}))
    assert error.message == f"NUMAMIRROR_HOME={text}: not a node id"


def test_a_home_without_memory_is_refused(machine: Machine) -> None:
    error = refusal(lambda: choose_home(machine, 3, environ={}))
    assert error.message == "--home 3: node 3 has no memory"


def test_no_home_without_numa(tmp_path: Path) -> None:
    machine = read_machine(tmp_path, environ={})
    assert choose_home(machine, None, environ={"NUMAMIRROR_HOME": "0"}).node is None
    with pytest.raises(NumaMirrorError, match="this kernel exposes no NUMA"):
        choose_home(machine, 0, environ={})


def test_named_nodes_are_checked(machine: Machine) -> None:
    assert choose_nodes(machine, [5, 0, 5]) == (0, 5)
    error = refusal(lambda: choose_nodes(machine, [0, 4]))
    assert error.message == "there is no node 4: this machine has nodes 0,2-3,5"


def test_gpu_memory_cannot_be_named(unpacked_dump: Callable[[str], Path]) -> None:
    machine = read_machine(unpacked_dump("nvidiagpunumanodes"), environ={})
    with pytest.raises(NumaMirrorError, match=r"node 252 is the memory of GPU 0007:00:00\.0"):
        choose_nodes(machine, [252])


def test_a_gpu_beside_cpus_without_memory_votes_for_the_node_they_read(
    make_root: MakeRoot,
) -> None:
    gpu = {
        "address": "0000:81:00.0",
        "pci_class": "0x030200",
        "vendor": "0x10de",
        "numa_node": 3,
    }
    rows = [[10, 20, 20, 20], [20, 10, 15, 20], [20, 15, 10, 20], [20, 20, 20, 10]]
    machine = read_machine(make_root(NODES, distances=rows, pci=[gpu]), environ={})
    assert machine.home == Home(2, "1 of 1 GPUs are nearest to it (0000:81:00.0)")


def test_a_gpu_on_a_node_that_gets_no_copy_does_not_vote(make_root: MakeRoot) -> None:
    gpu = {
        "address": "0000:81:00.0",
        "pci_class": "0x030200",
        "vendor": "0x10de",
        "numa_node": 2,
    }
    status = {"Cpus_allowed_list": "0-3"}
    machine = read_machine(make_root(NODES, status=status, pci=[gpu]), environ={})
    assert machine.home == Home(0, "the only mirror node")
    assert machine.gpus[0].reason == "node 2 gets no copy: does not vote"
