"""Doctor's checks of kernel settings, refusals and limits."""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path

import pytest

from numamirror_cli.doctor.check import BAD, OK, WARN, Check
from numamirror_cli.doctor.diagnosis import diagnose, gather_facts
from numamirror_cli.doctor.facts import Facts
from numamirror_cli.doctor.settings import Settings, read_settings
from numamirror_cli.memory.lock_limit import UNLIMITED
from numamirror_cli.memory.policy import explain_refusal
from tests.unit.conftest import MakeRoot, write
from tests.unit.memory.under_seccomp import run_denied

TWO = {0: {"cpus": "0-7"}, 1: {"cpus": "8-15"}}
MIB = 1 << 20


def checks_of(root: Path, **changed: object) -> dict[str, Check]:
    facts = gather_facts(root, (), {})
    found = diagnose(Facts(**{**vars(facts), **changed}))
    return {check.name: check for check in found}


@pytest.mark.parametrize(("value", "level"), [("0", OK), ("1", WARN), ("2", WARN)])
def test_numa_balancing_is_a_warning_with_the_very_command(
    make_root: MakeRoot, value: str, level: str
) -> None:
    root = make_root(TWO)
    write(root / "proc/sys/kernel/numa_balancing", f"{value}\n")
    found = checks_of(root)["numa_balancing"]
    assert found.level == level
    assert f"kernel.numa_balancing is {value}" in found.text
    assert found.remedy == ("" if level == OK else "sudo sysctl kernel.numa_balancing=0")


def test_numa_balancing_is_no_matter_on_one_node(make_root: MakeRoot) -> None:
    root = make_root({0: {"cpus": "0-7"}})
    write(root / "proc/sys/kernel/numa_balancing", "1\n")
    assert checks_of(root)["numa_balancing"].level == OK


@pytest.mark.parametrize(
    ("chosen", "level"),
    [
        ("[always] madvise never", OK),
        ("always [madvise] never", OK),
        ("always madvise [never]", WARN),
    ],
)
def test_huge_pages_that_are_off_cost_replicas(
    make_root: MakeRoot, chosen: str, level: str
) -> None:
    root = make_root(TWO)
    write(root / "sys/kernel/mm/transparent_hugepage/enabled", f"{chosen}\n")
    found = checks_of(root)["huge pages"]
    assert found.level == level
    assert ("transparent_hugepage" in found.remedy) is (level == WARN)


def test_a_kernel_without_huge_pages_is_told_from_a_dump_without_the_file(
    make_root: MakeRoot,
) -> None:
    root = make_root(TWO)
    assert "huge pages" not in checks_of(root)
    write(root / "proc/sys/vm/max_map_count", "65530\n")
    assert "not built into this kernel" in checks_of(root)["huge pages"].text


def test_s10_the_default_max_map_count_is_enough_for_any_number_of_experts(
    make_root: MakeRoot,
) -> None:
    root = make_root(TWO)
    write(root / "proc/sys/vm/max_map_count", "65530\n")
    found = checks_of(root)["max_map_count"]
    assert found.level == OK
    assert "a few per node, not per tensor" in found.text
    write(root / "proc/sys/vm/max_map_count", "1000\n")
    found = checks_of(root)["max_map_count"]
    assert found.level == WARN
    assert found.remedy == "sudo sysctl vm.max_map_count=65530"


@pytest.mark.parametrize(
    ("total", "free", "level", "words"),
    [
        (0, 0, OK, "none"),
        (2048, 2048, OK, "2 MiB, unused"),
        (2048, 1024, WARN, "1 of 2 MiB in use"),
    ],
)
def test_swap_in_use_is_a_warning(
    make_root: MakeRoot, total: int, free: int, level: str, words: str
) -> None:
    root = make_root(TWO)
    write(root / "proc/meminfo", f"SwapTotal:  {total} kB\nSwapFree:   {free} kB\n")
    found = checks_of(root)["swap"]
    assert found.level == level and words in found.text


def test_refused_policy_calls_are_named_with_who_refuses(make_root: MakeRoot) -> None:
    refusal = explain_refusal("mbind", errno.EPERM)
    found = checks_of(make_root(TWO), refusals=(refusal,))["policy calls"]
    assert found.level == WARN
    assert "mbind: EPERM: blocked by the container's seccomp profile" in found.text
    assert "seccomp profile that allows mbind" in found.remedy


def test_refused_policy_calls_do_no_harm_where_there_is_one_node(make_root: MakeRoot) -> None:
    refusal = explain_refusal("set_mempolicy", errno.ENOSYS)
    found = checks_of(make_root({0: {"cpus": "0-7"}}), refusals=(refusal,))["policy calls"]
    assert found.level == OK and found.remedy == ""


def test_a_real_seccomp_filter_is_noticed() -> None:
    source = (
        "import json\n"
        "from pathlib import Path\n"
        "from numamirror_cli.doctor.diagnosis import diagnose, gather_facts\n"
        "found = diagnose(gather_facts(Path('/'), (), {}))\n"
        "print(json.dumps([c.text for c in found if c.name == 'policy calls']))\n"
    )
    denied = json.loads(run_denied(["mbind", "set_mempolicy"], errno.EPERM, source))
    if not Path("/sys/devices/system/node/node0").exists():
        assert denied == []
        return
    assert [text.partition(":")[0] for text in denied] == ["set_mempolicy", "mbind"]


def test_a_missing_shim_is_bad(tmp_path: Path) -> None:
    environ = {"NUMAMIRROR_SHIM": str(tmp_path / "gone.so")}
    found = {c.name: c for c in diagnose(gather_facts(Path("/"), (), environ))}
    assert found["shim"].level == BAD
    assert "gone.so" in found["shim"].text and "NUMAMIRROR_SHIM" in found["shim"].remedy


def test_settings_are_read_as_the_kernel_writes_them(tmp_path: Path) -> None:
    write(
        tmp_path / "proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max locked memory         65536                unlimited            bytes     \n",
    )
    write(tmp_path / "proc/self/status", "Name:\tx\nCapEff:\t0000000000003fff\n")
    write(tmp_path / "proc/meminfo", "MemTotal: 10 kB\nSwapTotal: 8 kB\nSwapFree: 2 kB\n")
    found = read_settings(tmp_path)
    assert found.lock_limit == 65536
    assert (found.swap_total, found.swap_used) == (8192, 6144)
    write(tmp_path / "proc/self/status", "CapEff:\t0000000000004000\n")  # CAP_IPC_LOCK
    assert read_settings(tmp_path).lock_limit == UNLIMITED
    write(tmp_path / "proc/self/limits", "Max locked memory         unlimited  unlimited  bytes\n")
    write(tmp_path / "proc/self/status", "CapEff:\t0000000000003fff\n")
    assert read_settings(tmp_path).lock_limit == UNLIMITED


@pytest.mark.parametrize("text", ["", "garbage", "\0\0", "Max locked memory many\nCapEff: zz"])
def test_settings_that_are_garbage_say_nothing(tmp_path: Path, text: str) -> None:
    for file in (
        "proc/self/limits",
        "proc/self/status",
        "proc/meminfo",
        "proc/sys/vm/max_map_count",
        "proc/sys/kernel/numa_balancing",
        "sys/kernel/mm/transparent_hugepage/enabled",
    ):
        write(tmp_path / file, text)
    assert read_settings(tmp_path) == Settings()


def test_this_machine_is_read_without_an_error() -> None:
    found = read_settings()
    assert found.max_map_count is None or found.max_map_count > 0
    assert sys.platform == "linux"
