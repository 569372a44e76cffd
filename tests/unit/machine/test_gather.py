"""`topology --gather`: the archive replays to the same machine and tells nothing else."""

from __future__ import annotations

import dataclasses
import io
import os
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.machine.archive import open_root
from numamirror_cli.machine.gather import gather
from numamirror_cli.machine.model import Machine
from numamirror_cli.machine.read import read_machine
from tests.unit.launch.conftest import environment

MakeRoot = Callable[..., Path]

NODES = {0: {"cpus": "0-3"}, 1: {"cpus": "4-7"}}
GPU = {
    "address": "0000:83:00.0",
    "pci_class": "0x030200",
    "vendor": "0x10de",
    "device": "0x2204",
    "numa_node": -1,
    "bridges": [("0000:80:01.0", 1), ("0000:81:00.0", -1)],
    "driver": "nvidia",
}
INTEGRATED = {
    "address": "0000:c4:00.0",
    "pci_class": "0x038000",
    "vendor": "0x1002",
    "numa_node": 0,
}
SECURITY_PROCESSOR = {"address": "0000:c4:00.2", "pci_class": "0x108000", "vendor": "0x1022"}
NETWORK_CARD = {"address": "0000:41:00.0", "pci_class": "0x020000", "vendor": "0x15b3"}
STATUS = {
    "Name": "secret-program",
    "Uid": "4711",
    "Cpus_allowed_list": "0-5",
    "Mems_allowed_list": "0-1",
}
# What must not leave the machine: written into places where real machines have it.
SECRETS = {
    "proc/cmdline": "root=UUID=5ec4e7 ip=::::host-5ec4e7 numa=fake=2 numa_balancing=disable quiet",
    "proc/cpuinfo": "model name\t: Fast CPU\nflags\t\t: fpu hypervisor\nserial: 5ec4e7\n",
    "proc/mounts": "server-5ec4e7:/home /home nfs rw 0 0\n",
    "proc/self/cgroup": "0::/user.slice/user-5ec4e7\n",
    "proc/sys/kernel/hostname": "host-5ec4e7\n",
    "sys/devices/system/cpu/cpu0/topology/ppin": "0x5ec4e7\n",
    "sys/devices/system/node/node0/serial_5ec4e7": "5ec4e7\n",
    "sys/bus/pci/devices/0000:83:00.0/unique_id": "5ec4e7\n",
    "sys/bus/pci/devices/0000:83:00.0/serial_number": "5ec4e7\n",
    "sys/bus/pci/devices/0000:41:00.0/net/eth0/address": "5e:c4:e7:5e:c4:e7 5ec4e7\n",
    "proc/driver/nvidia/gpus/0000:83:00.0/information": (
        "Model: \t\t NVIDIA GeForce RTX 3090\nGPU UUID: \t GPU-5ec4e7\nBus Location: 5ec4e7\n"
    ),
}


@pytest.fixture
def root(make_root: MakeRoot) -> Path:
    pci = [GPU, INTEGRATED, SECURITY_PROCESSOR, NETWORK_CARD]
    root = make_root(NODES, packages={"0-7": 0}, smt_offset=4, status=STATUS, pci=pci)
    for path, text in SECRETS.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def replayed(archive: Path) -> Machine:
    with open_root(archive) as directory:
        return read_machine(directory, environ={})


def without_root(machine: Machine) -> Machine:
    return dataclasses.replace(machine, root=Path("/"))


def test_the_replay_is_the_same_machine(root: Path, tmp_path: Path) -> None:
    gather(root, tmp_path / "report.tar.xz")
    machine = replayed(tmp_path / "report.tar.xz")
    assert machine.home.node == 1
    assert [gpu.votes for gpu in machine.gpus] == [True, False]
    assert without_root(machine) == without_root(read_machine(root, environ={}))


@pytest.mark.parametrize(
    "name",
    [
        "256ppc-8n8s4t",
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
        "offline-cpu0-node0",
    ],
)
def test_a_dump_gathered_again_is_the_same_machine(
    unpacked_dump: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    original = unpacked_dump(name)
    gather(original, tmp_path / "again.tar.xz")
    machine = replayed(tmp_path / "again.tar.xz")
    assert without_root(machine) == without_root(read_machine(original, environ={}))


def test_this_machine_replays_to_itself(tmp_path: Path) -> None:
    """Free memory changes meanwhile; all else stays."""
    gather(Path("/"), tmp_path / "live.tar.xz")

    def lasting(machine: Machine) -> Machine:
        nodes = tuple(
            dataclasses.replace(node, mem_free=None, mem_reclaimable=0) for node in machine.nodes
        )
        return dataclasses.replace(without_root(machine), nodes=nodes)

    assert lasting(replayed(tmp_path / "live.tar.xz")) == lasting(read_machine(environ={}))


def test_no_serial_number_address_or_name_is_inside(root: Path, tmp_path: Path) -> None:
    planted = "".join(f.read_text() for f in root.rglob("*") if f.is_file())
    assert planted.count("5ec4e7") > len(SECRETS)
    gather(root, tmp_path / "report.tar.xz")
    with tarfile.open(tmp_path / "report.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            content = file.read() if file else b""
            assert b"5ec4e7" not in content, member.name
            assert "5ec4e7" not in member.name + member.linkname
            assert b"secret-program" not in content
            assert (member.uid, member.gid, member.uname, member.mtime) == (0, 0, "", 0)
        names = archive.getnames()
    assert "report/CONTENTS" in names
    assert not [name for name in names if "0000:41:00.0" in name]


def test_what_matters_of_partial_files_is_kept(root: Path, tmp_path: Path) -> None:
    gather(root, tmp_path / "report.tar.xz")
    with open_root(tmp_path / "report.tar.xz") as directory:
        assert (directory / "proc/cmdline").read_text() == "numa_balancing=disable\n"
        assert "Fast CPU" in (directory / "proc/cpuinfo").read_text()
        assert (directory / "proc/self/status").read_text() == (
            "Cpus_allowed_list:\t0-5\nMems_allowed_list:\t0-1\n"
        )


def test_an_archive_that_cannot_be_written_leaves_nothing(root: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(NumaMirrorError, match=r"cannot write .*taken"):
        gather(root, tmp_path / "taken")
    with pytest.raises(NumaMirrorError, match="No such file or directory"):
        gather(root, tmp_path / "absent/report.tar.xz")
    assert {entry.name for entry in tmp_path.iterdir()} == {"root", "taken"}


def test_a_read_only_directory_is_an_error_and_no_crash(root: Path) -> None:
    """/proc refuses to create and to unlink, also for root."""
    with pytest.raises(NumaMirrorError, match=r"^cannot write /proc/report\.tar\.xz: "):
        gather(root, Path("/proc/report.tar.xz"))


def pack(file: Path, *members: tuple[str, str | bytes]) -> Path:
    """A hostile archive: (name, content) for files, (name, "-> target") for links."""
    with tarfile.open(file, "w:gz") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content.removeprefix("-> ")
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return file


def test_an_archive_that_would_fill_the_disk_is_refused_before_it_is_unpacked(
    tmp_path: Path,
) -> None:
    member = tarfile.TarInfo("sys/huge")
    member.size = 300 << 20
    archive = tmp_path / "huge.tar"
    archive.write_bytes(member.tobuf())
    with pytest.raises(NumaMirrorError) as raised, open_root(archive):
        pass
    assert raised.value.message == f"{archive}: larger than any dump of a machine"


@pytest.mark.parametrize(
    "members",
    [
        [("../escaped", b"x")],
        [("a/../../escaped", b"x")],
        [("/tmp/numamirror-escaped", b"x")],
        [("a", "-> .."), ("a/a/escaped", b"x")],
    ],
)
def test_an_archive_cannot_write_outside_its_directory(
    tmp_path: Path, members: list[tuple[str, str | bytes]]
) -> None:
    archive = pack(tmp_path / "hostile.tar.gz", *members, ("sys/ok", b"x"))
    opened = open_root(archive)
    try:
        with opened as directory:
            assert directory.is_dir()
    except NumaMirrorError as error:
        assert "outside the archive" in error.message
        assert error.exit_code == 2
    assert not Path("/tmp/numamirror-escaped").exists()
    assert not list(tmp_path.rglob("escaped"))
    assert not list(Path("/tmp").glob("escaped"))


def test_links_that_lead_out_are_left_out(tmp_path: Path) -> None:
    archive = pack(tmp_path / "hostile.tar.gz", ("sys/ok", b"x"), ("proc/passwd", "-> /etc/passwd"))
    with open_root(archive) as directory:
        assert (directory / "sys/ok").read_bytes() == b"x"
        assert not (directory / "proc/passwd").exists()


def test_an_archive_without_a_top_directory_will_do(root: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "bare.tar.xz", "w:xz") as archive:
        archive.add(root / "sys", "sys")
    assert replayed(tmp_path / "bare.tar.xz").mirror_nodes == (0, 1)


def test_the_command_says_what_is_inside_and_how_to_replay(root: Path, tmp_path: Path) -> None:
    archive = tmp_path / "report.tar.xz"
    said = run_topology("--root", root, "--gather", archive)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith(f"Wrote {archive}: ")
    words = " ".join(said.stdout.split())
    assert f"numamirror topology --root {archive}" in said.stdout
    assert "Left out: serial numbers, UUIDs, MAC addresses, host and user names" in words
    original, again = (run_topology("--root", path) for path in (root, archive))
    assert original.stdout == again.stdout
    assert f'"root": "{archive}"' in run_topology("--json", "--root", archive).stdout


def test_the_printed_commands_work_whatever_the_file_is_called(root: Path, tmp_path: Path) -> None:
    archive = tmp_path / "my server; false.tar.xz"
    said = run_topology("--root", root, "--gather", archive)
    listing, replay = map(shlex.split, said.stdout.splitlines()[-2:])
    assert listing == ["tar", "-tJf", str(archive)]
    assert replay == ["numamirror", "topology", "--root", str(archive)]


def test_a_file_that_is_no_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no archive\n")
    said = run_topology("--root", tmp_path / "notes.txt")
    assert said.returncode == 2
    assert said.stderr.startswith(
        f"numamirror: {tmp_path}/notes.txt: neither a directory nor a readable tar archive"
    )
    _, *remedy = said.stderr.splitlines()
    assert remedy == ["numamirror: numamirror topology --gather FILE.tar.xz makes a dump"]


@pytest.mark.parametrize("kind", ["directory", "archive"])
def test_what_holds_no_machine_is_not_called_one_without_numa(tmp_path: Path, kind: str) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/today").write_text("no dump\n")
    root = tmp_path / "notes"
    if kind == "archive":
        root = pack(tmp_path / "notes.tar.xz", ("notes/today", b"no dump\n"))
    said = run_topology("--root", root)
    assert said.returncode == 2
    assert f"{root}: no dump of a machine: it holds neither sys nor proc" in said.stderr
    assert said.stdout == ""


def test_a_truncated_archive_is_named(root: Path, tmp_path: Path) -> None:
    gather(root, tmp_path / "whole.tar.xz")
    half = (tmp_path / "whole.tar.xz").read_bytes()[:700]
    (tmp_path / "half.tar.xz").write_bytes(half)
    said = run_topology("--root", tmp_path / "half.tar.xz")
    assert said.returncode == 2
    assert "half.tar.xz: neither a directory nor a readable tar archive" in said.stderr


def run_topology(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "numamirror_cli", "topology", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        env={k: v for k, v in os.environ.items() if not k.startswith("NUMAMIRROR")},
        check=False,
    )


def test_an_archive_goes_where_a_link_leads_and_replaces_no_device(
    make_root: MakeRoot, tmp_path: Path
) -> None:
    root = make_root(NODES)
    link, full = tmp_path / "link.tar.xz", tmp_path / "full"
    link.symlink_to(tmp_path / "real.tar.xz")
    gathered = gather(root, link)
    assert link.is_symlink()
    assert gathered.archive_bytes == (tmp_path / "real.tar.xz").stat().st_size
    full.symlink_to("/dev/full")
    with pytest.raises(NumaMirrorError, match=r"cannot write .*: No space left on device"):
        gather(root, full)
    assert full.is_symlink()


def test_an_archive_that_there_is_no_room_for_is_not_called_unreadable(
    make_root: MakeRoot, tmp_path: Path
) -> None:
    archive = tmp_path / "machine.tar.xz"
    gather(make_root(NODES), archive)
    small = 'mount -t tmpfs -o size=8k none /mnt && exec env TMPDIR=/mnt "$@"'
    unshare = ["unshare", "--mount", "sh", "-c", small, "sh"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a mount namespace needs root and unshare")
    command = [*unshare, sys.executable, "-m", "numamirror_cli", "topology", "--root", archive]
    said = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert f"{archive}: cannot be unpacked: No space left on device" in said.stderr


def test_an_archive_without_a_temporary_directory_is_not_called_unreadable(
    make_root: MakeRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "machine.tar.xz"
    gather(make_root(NODES), archive)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(NumaMirrorError, match="cannot be unpacked: No such file"):
        open_root(archive).__enter__()
