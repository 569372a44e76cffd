"""What may still be taken on a node: free memory and page cache that need not be written first."""

from __future__ import annotations

from pathlib import Path

from numamirror_cli.machine.nodes import read_nodes
from numamirror_cli.machine.read import read_machine
from numamirror_cli.machine.tree import Tree
from numamirror_cli.plan.ram import available_bytes
from tests.unit.conftest import MakeRoot

AMOUNTS = {
    "MemTotal": 1000,
    "MemFree": 100,
    "Active(file)": 300,
    "Inactive(file)": 200,
    "Dirty": 40,
    "Writeback": 7,
}


def reclaimable_kib(root: Path, **changes: int) -> int:
    lines = (f"Node 0 {name}: {kib} kB\n" for name, kib in {**AMOUNTS, **changes}.items())
    (root / "sys/devices/system/node/node0/meminfo").write_text("".join(lines))
    [node] = read_nodes(Tree(root))
    return node.mem_reclaimable // 1024


def test_page_cache_counts_without_what_must_be_written_first(make_root: MakeRoot) -> None:
    root = make_root({0: {"cpus": "0"}})
    assert reclaimable_kib(root) == 300 + 200 - 40 - 7
    assert reclaimable_kib(root, Dirty=0, Writeback=0) == 500
    assert reclaimable_kib(root, Dirty=9000) == 0


def test_a_part_of_each_node_is_left_to_the_kernel(make_root: MakeRoot) -> None:
    ample = {"cpus": "0", "mem_mib": 3200, "free_mib": 500}
    machine = read_machine(make_root({0: ample, 1: {**ample, "cpus": "1", "free_mib": 50}}))
    assert available_bytes(machine.node(0)) == (500 - 100) << 20
    assert available_bytes(machine.node(1)) == 0
