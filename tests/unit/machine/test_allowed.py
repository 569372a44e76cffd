"""What a process may use, in dumps that hold its cpuset alone: by each way to mount one."""

from __future__ import annotations

from pathlib import Path

import pytest

from numamirror_cli.machine.allowed import Allowed, read_allowed
from numamirror_cli.machine.tree import Tree
from tests.unit.conftest import write

VERSION_1 = "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0"
VERSION_2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0"
LIMITED = Allowed(frozenset({0, 1}), frozenset({1}))


@pytest.mark.parametrize(
    ("mounts", "directory", "prefix", "suffix"),
    [
        ("none /dev/cpuset cpuset rw 0 0", "dev/cpuset", "", ""),
        ("none /dev/cpuset cgroup rw,cpuset,noprefix 0 0", "dev/cpuset", "", ""),
        (VERSION_1, "sys/fs/cgroup/cpuset", "cpuset.", ""),
        (VERSION_2, "sys/fs/cgroup", "cpuset.", ".effective"),
        (f"{VERSION_2}\n{VERSION_1}", "sys/fs/cgroup/cpuset", "cpuset.", ""),
        (r"none /mnt/my\040sets cpuset rw 0 0", "mnt/my sets", "", ""),
    ],
    ids=["cpuset", "noprefix", "version 1", "version 2", "both", "blank"],
)
def test_the_limits_of_a_cpuset_are_found_where_it_is_mounted(
    tmp_path: Path, mounts: str, directory: str, prefix: str, suffix: str
) -> None:
    write(tmp_path / "proc/mounts", f"proc /proc proc rw 0 0\n{mounts}\n")
    write(tmp_path / "proc/self/cpuset", "/jobs/7\n")
    write(tmp_path / directory / "jobs/7" / f"{prefix}cpus{suffix}", "0-1\n")
    write(tmp_path / directory / "jobs/7" / f"{prefix}mems{suffix}", "1\n")
    assert read_allowed(Tree(tmp_path)) == LIMITED


def test_what_the_kernel_says_of_the_process_beats_its_cpuset(tmp_path: Path) -> None:
    write(tmp_path / "proc/mounts", f"{VERSION_2}\n")
    write(tmp_path / "proc/self/cpuset", "/\n")
    write(tmp_path / "sys/fs/cgroup/cpuset.cpus.effective", "0-63\n")
    write(tmp_path / "sys/fs/cgroup/cpuset.mems.effective", "0-1\n")
    write(tmp_path / "proc/self/status", "Cpus_allowed_list:\t0-1\nMems_allowed_list:\t1\n")
    assert read_allowed(Tree(tmp_path)) == LIMITED


def test_without_a_cpuset_nothing_is_limited(tmp_path: Path) -> None:
    assert read_allowed(Tree(tmp_path)) == Allowed()


def test_cpus_far_beyond_a_thousand_are_read(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/status", "Cpus_allowed_list:\t0,1023-1024,8191\n")
    assert read_allowed(Tree(tmp_path)).cpus == {0, 1023, 1024, 8191}
