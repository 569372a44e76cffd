"""Texts that others wrote: lists and masks of CPUs, and the variables of the environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.machine.cpulist import format_list, parse_list, parse_mask
from numamirror_cli.machine.home import HOME_VARIABLE, choose_home
from numamirror_cli.machine.read import read_machine
from numamirror_cli.machine.visible import VARIABLES

MakeRoot = Callable[..., Path]

SETS = st.frozensets(st.integers(0, 5000), max_size=40)
NEARLY_A_LIST = st.text(alphabet="0123456789-,:/x \n\0", max_size=40) | st.text(max_size=40)
# As os.environ has it: no NUL, and bytes that are no UTF-8 as surrogates.
VALUES = st.binary(max_size=60).map(
    lambda raw: raw.replace(b"\0", b",").decode(errors="surrogateescape")
)
IDS = st.sampled_from(["0", "1", "-1", "7", "GPU-3a", "0,1", "NoDevFiles", "all", ""])
VISIBLE = [*(name for name, _ in VARIABLES), "CUDA_DEVICE_ORDER"]
ENVIRONMENTS = st.fixed_dictionaries({}, optional=dict.fromkeys(VISIBLE, IDS | VALUES))


@given(SETS)
def test_a_set_of_cpus_is_read_as_it_was_written(cpus: frozenset[int]) -> None:
    assert parse_list(format_list(cpus)) == cpus


@given(SETS)
def test_a_mask_means_the_same_cpus_as_their_list(cpus: frozenset[int]) -> None:
    value = sum(1 << cpu for cpu in cpus)
    words = [f"{value >> shift & 0xFFFFFFFF:08x}" for shift in range(0, 5024, 32)]
    assert parse_mask(",".join(reversed(words))) == cpus


@pytest.mark.parametrize("parse", [parse_list, parse_mask])
@given(text=NEARLY_A_LIST)
def test_any_text_is_a_set_or_is_named(parse: Callable[[str], frozenset[int]], text: str) -> None:
    try:
        members = parse(text)
    except ValueError as refused:
        assert repr(text) in str(refused)
    else:
        assert all(member >= 0 for member in members)


@pytest.mark.parametrize("text", ["0_1", "+1", "0-1_0", "\u0663", "0:1_0/2"])
def test_what_only_python_takes_for_a_number_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="not a CPU or node list"):
        parse_list(text)


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(values=ENVIRONMENTS, home=IDS | VALUES)
def test_whatever_the_environment_holds_there_is_a_home_or_the_variable_is_named(
    make_root: MakeRoot, tmp_path: Path, values: dict[str, str], home: str
) -> None:
    root = tmp_path / "root" if (tmp_path / "root").exists() else two_nodes(make_root)
    machine = read_machine(root, environ=values)
    assert machine.home.node in machine.mirror_nodes
    assert all(note.isprintable() for note in machine.notes)
    try:
        chosen = choose_home(machine, None, {HOME_VARIABLE: home})
    except NumaMirrorError as refused:
        assert refused.exit_code == 2
        assert refused.message.startswith(f"{HOME_VARIABLE}={home.strip()}: ")
    else:
        assert chosen.node in machine.mirror_nodes


def two_nodes(make_root: MakeRoot) -> Path:
    gpus = [
        {"address": f"0000:8{node}:00.0", "pci_class": "0x030000", "vendor": vendor,
         "device": "0x2204", "numa_node": node, "local_cpulist": "4-7"}
        for node, vendor in ((0, "0x10de"), (1, "0x1002"), (1, "0x10de"))
    ]  # fmt: skip
    gpus[2]["address"] = "0000:82:00.0"
    return make_root({0: {"cpus": "0-3"}, 1: {"cpus": "4-7"}}, pci=gpus)
