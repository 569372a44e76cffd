"""The machine that the tests run on, read twice: by us, and by the kernel's own calls."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from numamirror_cli.machine import hwdb
from numamirror_cli.machine.pci import read_devices
from numamirror_cli.machine.read import read_machine
from numamirror_cli.machine.tree import Tree

HAS_NUMA = Path("/sys/devices/system/node/node0").is_dir()


@pytest.mark.skipif(not HAS_NUMA, reason="this kernel exposes no NUMA nodes")
def test_allowed_cpus_are_those_of_sched_getaffinity() -> None:
    machine = read_machine()
    allowed = frozenset[int]().union(*(node.allowed_cpus for node in machine.nodes))
    assert allowed == os.sched_getaffinity(0)


@pytest.mark.skipif(not HAS_NUMA, reason="this kernel exposes no NUMA nodes")
def test_another_process_is_asked_for_its_own_limits() -> None:
    one_cpu = min(os.sched_getaffinity(0))
    command = ["taskset", "-c", str(one_cpu), "sleep", "60"]
    with subprocess.Popen(command) as child:
        try:
            _wait_until_restricted(child.pid, one_cpu)
            machine = read_machine(pid=child.pid)
        finally:
            child.kill()
    allowed = frozenset[int]().union(*(node.allowed_cpus for node in machine.nodes))
    assert allowed == {one_cpu}


def _wait_until_restricted(pid: int, cpu: int) -> None:
    while os.sched_getaffinity(pid) != {cpu}:
        os.sched_yield()


def test_libudev_and_the_directory_list_the_same_devices() -> None:
    live, as_a_dump = Tree(Path("/")), Tree(Path("/proc/self/root"))
    assert live.live
    assert not as_a_dump.live
    addresses = [device.address for device in read_devices(live)]
    assert addresses == [device.address for device in read_devices(as_a_dump)]


def test_a_machine_without_libudev_is_read_from_the_directory() -> None:
    """In a process of its own, because the library may be loaded here already."""
    script = (
        "import sys; sys.modules['pyudev'] = None\n"
        "from numamirror_cli.machine.read import read_machine\n"
        "print([gpu.address for gpu in read_machine().gpus])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == str([gpu.address for gpu in read_machine().gpus])


@pytest.mark.skipif(
    not any(Path(p).exists() for p in ("/usr/lib/udev/hwdb.bin", "/etc/udev/hwdb.bin")),
    reason="no hardware database (hwdb.bin) on this machine",
)
def test_the_hardware_database_knows_a_common_device() -> None:
    name = hwdb.pci_name(0x10DE, 0x2204)
    assert name is not None
    assert "RTX 3090" in name


def test_a_device_that_no_database_knows_has_no_name() -> None:
    assert hwdb.pci_name(0xFFFE, 0xFFFE) is None


def test_start_up_does_not_import_what_it_does_not_need(
    make_root: Callable[..., Path],
) -> None:
    root = make_root({0: {"cpus": "0"}})
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from numamirror_cli.machine.read import read_machine\n"
        "read_machine(Path(sys.argv[1]))\n"
        "print(sorted({'pyudev', 'rich', 'numpy', 'click', 'psutil'} & set(sys.modules)))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script, str(root)], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == "[]"
