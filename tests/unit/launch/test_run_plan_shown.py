"""`run --dry-run` and `run --json`: the plan as text and as a document, and no start."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.launch.conftest import Recorded, environment, numamirror_run

MakeRoot = Callable[..., Path]

TWO_NODES = {0: {"cpus": "0-7"}, 1: {"cpus": "8-15"}}
GPUS = [
    {
        "address": f"0000:82:0{n}.0",
        "pci_class": "0x030200",
        "vendor": "0x10de",
        "device": "0x2204",
        "numa_node": 1,
    }
    for n in (1, 2)
]

EXPECTED = """\
Program:   /bin/echo
Command:   /bin/echo 'a b'
Strategy:  mirror (2 nodes, one copy each)
Home:      node 1 (2 of 2 GPUs are there (0000:82:01.0, 0000:82:02.0))
Policy:    preferred:1
Because:   the model's size is not known, room for copies is checked when it is loaded; \
changed by: a model file named with -m
Copies:
  node 0: replica, for CPUs 0-7
  node 1: primary, read in place, for CPUs 8-15
Environment:
  NUMAMIRROR_ABI=1
  NUMAMIRROR_MIN_BYTES=1048576
  NUMAMIRROR_COPIES='0=0-7;1=8-15'
  NUMAMIRROR_HOME_NODE=1
  LD_PRELOAD={shim}
"""


def test_a_dry_run_prints_plan_and_environment_and_starts_nothing(
    make_root: MakeRoot, shim_env: dict[str, str]
) -> None:
    root = make_root(TWO_NODES, pci=GPUS)
    result = numamirror_run("--dry-run", "--root", root, "/bin/echo", "a b", env=shim_env)
    assert result.returncode == 0
    assert result.stdout == EXPECTED.format(shim=shim_env["NUMAMIRROR_SHIM"])
    assert result.stderr == ""


def test_a_dry_run_plans_for_the_machine_of_an_archive(
    make_root: MakeRoot, shim_env: dict[str, str], tmp_path: Path
) -> None:
    archive = tmp_path / "machine.tar.xz"
    with tarfile.open(archive, "w:xz") as file:
        file.add(make_root(TWO_NODES, pci=GPUS), "machine")
    result = numamirror_run("--dry-run", "--root", archive, "/bin/echo", "a b", env=shim_env)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == EXPECTED.format(shim=shim_env["NUMAMIRROR_SHIM"])


def test_a_dry_run_for_a_file_that_is_no_dump_says_what_makes_one(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("eight sockets")
    result = numamirror_run("--dry-run", "--root", other, "true")
    assert result.returncode == 2
    assert f"{other}: neither a directory nor a readable tar archive" in result.stderr
    assert "numamirror topology --gather FILE.tar.xz makes a dump" in result.stderr


def test_a_dry_run_says_what_a_share_comes_to(
    make_root: MakeRoot, shim_env: dict[str, str]
) -> None:
    root = make_root({0: {"cpus": "0-7", "mem_mib": 4096}, 1: {"cpus": "8-15", "mem_mib": 2048}})
    options = ("--dry-run", "--root", root, "--budget", "50%")
    assert (
        "Budget:    1 GiB for the replicas of one copy"
        in numamirror_run(*options, "/bin/true", env=shim_env).stdout.splitlines()
    )


def test_messages_fold_between_words_on_a_terminal_and_stay_whole_in_a_pipe(tmp_path: Path) -> None:
    missing = tmp_path / "no.so"
    env = environment(NUMAMIRROR_SHIM=str(missing), COLUMNS="60")
    words = ("--rehearse", "2", "--report", "none", "true")
    piped = numamirror_run(*words, env=env).stderr
    assert any(len(line) > 60 for line in piped.splitlines())
    shown = numamirror_run(*words, env={**env, "FORCE_COLOR": "1"}).stderr
    assert shown.split() == piped.split()
    for line in shown.splitlines():
        assert line.startswith(("numamirror:", "    "))
        assert len(line) <= 60 or str(missing) in line


def test_where_there_is_nothing_to_mirror_it_is_said_once_and_is_no_fault(record: Recorded) -> None:
    result = numamirror_run("--json", record.path, "true", env=environment())
    if "nothing to mirror" not in record.read()["plan"]["reason"]:
        pytest.skip("this machine has several nodes")
    assert result.stderr.count("nothing to mirror") == 1
    assert "not mirrored" not in result.stderr.lower()
    assert [verdict["level"] for verdict in record.read()["verdict"]] == ["ok"]


def test_a_dry_run_takes_the_root_variable_and_a_real_run_does_not(
    make_root: MakeRoot, shim_env: dict[str, str]
) -> None:
    env = {**shim_env, "NUMAMIRROR_ROOT": str(make_root(TWO_NODES))}
    assert "NUMAMIRROR_COPIES='0=0-7;1=8-15'" in numamirror_run("--dry-run", "true", env=env).stdout
    result = numamirror_run("env", env=env)
    assert "NUMAMIRROR_COPIES=0=0-7;1=8-15" not in result.stdout
    assert "NUMAMIRROR_ROOT is ignored" in result.stderr


def test_the_environment_of_a_dry_run_can_be_used_by_hand(shim_env: dict[str, str]) -> None:
    shown = numamirror_run("--dry-run", "--rehearse", "2", "true", env=shim_env).stdout
    assignments = shown.partition("Environment:\n")[2].replace("\n", " ")
    command = f"env {assignments} sh -c 'echo $NUMAMIRROR_REHEARSE; cat /proc/$$/maps'"
    result = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=True, env=environment()
    )
    assert result.stdout.startswith("2\n") and "libstandin.so" in result.stdout


def test_the_json_of_a_dry_run_is_the_plan(
    make_root: MakeRoot, shim_env: dict[str, str], record: Recorded
) -> None:
    root = make_root(TWO_NODES, pci=GPUS)
    options = ("--dry-run", "--root", root, "--json", record.path, "--min-size", "2M")
    numamirror_run(*options, "true", env=shim_env)
    document = record.read()
    plan = document["plan"]
    assert plan["home"]["node"] == 1 and plan["policy"] == "preferred:1"
    assert plan["copies"] == [{"nodes": [0], "cpus": "0-7"}, {"nodes": [1], "cpus": "8-15"}]
    assert plan["min_bytes"] == 2 << 20
    assert document["child"] is None and document["mirror"] is None


def test_one_copy_per_socket_is_spread_and_the_primary_said_to_be_on_one_node(
    make_root: MakeRoot, shim_env: dict[str, str]
) -> None:
    cpus = ("0-3", "4-7", "8-11", "12-15")
    root = make_root(
        {node: {"cpus": each} for node, each in enumerate(cpus)},
        packages={"0-7": 0, "8-15": 1},
    )
    options = ("--dry-run", "--root", root, "--per", "socket", "--home", "1")
    shown = numamirror_run(*options, "true", env=shim_env).stdout
    assert (
        "  nodes 0-1: primary, on node 1 as far as it fits, read in place, for CPUs 0-7\n"
        "  nodes 2-3: replica, for CPUs 8-15\n"
    ) in shown
    assert "as far as it fits" not in numamirror_run(*options, "--copy-home", "true").stdout


def test_numa_balancing_is_a_warning_with_the_line_that_turns_it_off(
    make_root: MakeRoot, shim_env: dict[str, str]
) -> None:
    root = make_root(TWO_NODES)
    setting = root / "proc/sys/kernel/numa_balancing"
    setting.parent.mkdir(parents=True)
    for value, said in (("1", True), ("0", False)):
        setting.write_text(f"{value}\n")
        shown = numamirror_run("--dry-run", "--root", root, "true", env=shim_env).stdout
        assert ("sudo sysctl kernel.numa_balancing=0" in shown) is said


def test_a_dry_run_finds_missing_programs_and_nodes(make_root: MakeRoot) -> None:
    assert numamirror_run("--dry-run", "no-such-engine").returncode == 127
    root = make_root(TWO_NODES)
    result = numamirror_run("--dry-run", "--root", root, "--home", "7", "true")
    assert result.returncode == 2 and "nodes 0-1" in result.stderr


def test_a_dry_run_with_require_mirror_fails_where_there_can_be_none(make_root: MakeRoot) -> None:
    root = make_root({0: {"cpus": "0-7"}})
    result = numamirror_run("--dry-run", "--root", root, "--require", "mirror", "true")
    assert (result.returncode, result.stdout) == (125, "")


def test_help_names_every_option_and_the_exit_status() -> None:
    shown = numamirror_run("--help").stdout
    for word in ("--home", "--nodes", "--per", "--min-size", "--copy-home", "--rehearse",
                 "--require", "--report", "--json", "--dry-run", "125", "127"):  # fmt: skip
        assert word in shown
