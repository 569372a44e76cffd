"""`numamirror topology` as a user runs it: the page, the JSON, and what happens to bad input."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from numamirror_cli.machine.cpulist import parse_list

MakeRoot = Callable[..., Path]

GOLDEN = Path(__file__).parents[1] / "golden"

# A workstation as in the README: two sockets, two GPUs on the second, board VGA on the first.
TWO_SOCKETS: dict[str, Any] = {
    "nodes": {
        0: {"cpus": "0-15,32-47", "mem_mib": 131072, "free_mib": 120000},
        1: {"cpus": "16-31,48-63", "mem_mib": 131072, "free_mib": 125000},
    },
    "distances": [[10, 32], [32, 10]],
    "packages": {"0-15,32-47": 0, "16-31,48-63": 1},
    "smt_offset": 32,
    "pci": [
        {
            "address": "0000:03:00.0",
            "pci_class": "0x030000",
            "vendor": "0x1a03",
            "device": "0x2000",
            "numa_node": 0,
        },
        {
            "address": "0000:82:00.0",
            "pci_class": "0x030200",
            "vendor": "0x10de",
            "device": "0x2204",
            "numa_node": 1,
        },
        {
            "address": "0000:83:00.0",
            "pci_class": "0x030200",
            "vendor": "0x10de",
            "device": "0x2204",
            "numa_node": 1,
        },
    ],
}


def topology(*arguments: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a pipe at 80 columns, without this shell's settings."""
    kept = {k: v for k, v in os.environ.items() if "VISIBLE_DEVICES" not in k}
    for name in ("NO_COLOR", "FORCE_COLOR", "NUMAMIRROR_HOME", "NUMAMIRROR_ROOT"):
        kept.pop(name, None)
    return subprocess.run(
        [sys.executable, "-m", "numamirror_cli", "topology", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**kept, "COLUMNS": "80", "PYTHONPATH": str(Path(__file__).parents[3]), **environ},
        check=False,
    )


def page(*arguments: str | Path, **environ: str) -> str:
    result = topology(*arguments, **environ)
    assert result.stderr == ""
    assert result.returncode == 0
    return result.stdout


def document(*arguments: str | Path, **environ: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(page("--json", *arguments, **environ))
    return parsed


def assert_golden(name: str, text: str) -> None:
    """Compare with a file; NUMAMIRROR_UPDATE_GOLDEN=1 writes it, to be read before it is kept."""
    file = GOLDEN / f"topology-{name}.txt"
    if os.environ.get("NUMAMIRROR_UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize(
    "name",
    [
        "32amd64-4s2n4c-cgroup2",
        "40intel64-2g2n4c+pcilocality",
        "48amd64-4pa2n6c-sparse",
        "fakememinitiators-1np2c+1npp+gi",
        "memorysidecaches",
        "nvidiagpunumanodes",
        "offline-cpu0-node0",
    ],
)
def test_the_page_of_a_real_machine(unpacked_dump: Callable[[str], Path], name: str) -> None:
    assert_golden(name, page("--root", unpacked_dump(name)))


def test_the_page_of_a_machine_with_gpus(make_root: MakeRoot) -> None:
    assert_golden("two-sockets", page("--root", make_root(**TWO_SOCKETS)))


def test_a_kernel_without_numa_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    assert_golden("no-numa", page("--root", tmp_path))
    assert document("--root", tmp_path)["numa"] is False


def test_the_page_fits_80_columns_and_holds_no_colour_in_a_pipe(make_root: MakeRoot) -> None:
    text = page("--root", make_root(**TWO_SOCKETS))
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r" $", text, re.MULTILINE)


def test_a_forced_colour_changes_no_word(make_root: MakeRoot) -> None:
    root = make_root(**TWO_SOCKETS)
    coloured = page("--root", root, FORCE_COLOR="1")
    assert "\x1b[" in coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in plain.splitlines()] == page("--root", root).splitlines()
    assert "\x1b[3" not in page("--root", root, FORCE_COLOR="1", NO_COLOR="1")


def test_a_wide_terminal_gets_long_lists_in_one_line(unpacked_dump: Callable[[str], Path]) -> None:
    text = page("--root", unpacked_dump("memorysidecaches"), COLUMNS="160")
    assert "0,4,8,12,16,20,24,28,32,36,40,44,48,52,56,60,64,68,72,76" in text


def test_the_root_can_come_from_the_environment(make_root: MakeRoot) -> None:
    root = make_root(**TWO_SOCKETS)
    assert document(NUMAMIRROR_ROOT=str(root)) == document("--root", root)


def test_json_of_a_machine_with_gpus(make_root: MakeRoot) -> None:
    root = make_root(**TWO_SOCKETS)
    read = document("--root", root)
    assert read["schema"] == 1
    assert read["root"] == str(root)
    assert read["numa"] is True
    assert read["nodes"][1] == {
        "id": 1,
        "cpus": "16-31,48-63",
        "allowed_cpus": "16-31,48-63",
        "cores": [f"{cpu},{cpu + 32}" for cpu in range(16, 32)],
        "mem_total_bytes": 128 << 30,
        "mem_free_bytes": 125000 << 20,
        "mem_reclaimable_bytes": 0,
        "mem_allowed": True,
        "distances": {"0": 32, "1": 10},
        "socket": 1,
        "kind": "cpu+memory",
        "gpu": None,
    }
    assert read["sockets"] == [[0], [1]]
    assert read["mirror_nodes"] == [0, 1]
    assert read["replica_node_of_cpu_node"] == {"0": 0, "1": 1}
    assert read["gpus"][0] == {
        "address": "0000:03:00.0",
        "class": "0x030000",
        "vendor": "0x1a03",
        "name": "ASPEED 0x2000",
        "node": 0,
        "votes": False,
        "reason": "board controller (ASPEED 0x1a03): does not vote",
    }
    assert read["home"] == {
        "node": 1,
        "reason": "2 of 2 GPUs are there (0000:82:00.0, 0000:83:00.0)",
    }
    assert read["notes"] == []


def test_the_environment_overrides_home(make_root: MakeRoot) -> None:
    root = make_root(**TWO_SOCKETS)
    read = document("--root", root, NUMAMIRROR_HOME="0")
    assert read["home"] == {"node": 0, "reason": "named in NUMAMIRROR_HOME"}


def test_hidden_gpus_do_not_vote(make_root: MakeRoot) -> None:
    read = document("--root", make_root(**TWO_SOCKETS), CUDA_VISIBLE_DEVICES="")
    assert [gpu["votes"] for gpu in read["gpus"]] == [False, False, False]
    assert read["home"]["node"] == 0


def test_an_unknown_home_in_the_environment_exits_2(make_root: MakeRoot) -> None:
    result = topology("--root", make_root(**TWO_SOCKETS), NUMAMIRROR_HOME="4")
    assert result.returncode == 2
    assert result.stdout == ""
    assert "NUMAMIRROR_HOME=4: there is no node 4: this machine has nodes 0-1" in result.stderr
    assert "usable here: nodes 0-1" in result.stderr


def test_a_root_that_does_not_exist_is_named() -> None:
    result = topology("--root", "/nonexistent/dump")
    assert result.returncode == 2
    assert "/nonexistent/dump" in result.stderr


def test_two_forms_at_once_are_bad_usage() -> None:
    result = topology("--json", "--draw")
    assert result.returncode == 2
    assert "--json, --draw, --svg and --gather exclude one another" in result.stderr


def test_broken_files_are_named_on_the_page(make_root: MakeRoot) -> None:
    root = make_root(**TWO_SOCKETS)
    (root / "sys/devices/system/node/node0/distance").write_text("near far\n")
    text = " ".join(page("--root", root).split())
    assert "/sys/devices/system/node/node0/distance: not a row of distances: 'near far'" in text


def test_nothing_on_the_page_is_cut_off(make_root: MakeRoot) -> None:
    root = make_root(**TWO_SOCKETS)
    garbage = "x" * 200
    (root / "sys/devices/system/node/node0/distance").write_text(garbage)
    text = page("--root", root, COLUMNS="60")
    assert garbage in re.sub(r"\s", "", text)
    assert max(map(len, text.splitlines())) <= 60


@pytest.mark.parametrize(
    "name",
    [
        "32amd64-4s2n4c-cgroup2",
        "32em64t-2n8c+dax+nvme+mic+dimms",
        "40intel64-2g2n4c+pcilocality",
        "48amd64-4pa2n6c-sparse",
        "64amd64-4p2n4ca2co",
        "64intel64-fakeKNL-SNC4-hybrid",
        "fakeheteromemtiers",
        "fakememinitiators-1np2c+1npp+gi",
        "memorysidecaches",
        "nvidiagpunumanodes",
    ],
)
def test_numactl_prints_the_same_of_the_same_dump(
    shared_dir: Path, unpacked_dump: Callable[[str], Path], name: str
) -> None:
    """Left out: 256ppc-8n8s4t, whose CPUs numactl cannot read, and offline-cpu0-node0, where it
    takes the distance to node 0 for the one to node 1."""
    text = (shared_dir / "topologies/golden" / name / "numactl-H.txt").read_text()
    ours = {
        str(node["id"]): {
            "cpus": sorted(parse_list(node["cpus"])),
            "size": node["mem_total_bytes"] >> 20,
            # numactl prints 0 for what the kernel does not say.
            "free": (node["mem_free_bytes"] or 0) >> 20,
            "distances": list(node["distances"].values()),
        }
        for node in document("--root", unpacked_dump(name))["nodes"]
    }
    assert ours == _fields_of_numactl(text)


def _fields_of_numactl(text: str) -> dict[str, dict[str, Any]]:
    nodes: dict[str, dict[str, Any]] = {}
    for line in text.splitlines():
        if match := re.match(r"node (\d+) (cpus|size|free):([ \d]*)", line):
            numbers = [int(word) for word in match[3].split()]
            value = sorted(numbers) if match[2] == "cpus" else numbers[0]
            nodes.setdefault(match[1], {})[match[2]] = value
        elif match := re.match(r" *(\d+):([ \d]+)$", line):
            nodes[match[1]]["distances"] = [int(word) for word in match[2].split()]
    return nodes
