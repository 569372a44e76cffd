"""The guest's initramfs: init.c compiled, and the modules that reach this machine's files."""

from __future__ import annotations

import gzip
import lzma
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from .missing import Missing

HERE = Path(__file__).parent
WANTED_MODULES = ("virtio_pci", "9pnet_virtio", "9p")


def build_initramfs(modules: Path, work: Path, more: Sequence[str] = ()) -> Path:
    """Writes work/initramfs.cpio for a kernel whose modules lie under `modules` (lib/modules/X.Y).

    more: names of modules that the guest loads besides those that it needs to run.
    Raises Missing when there is no C compiler or the kernel has no 9p.
    """
    entries: list[tuple[str, int, bytes]] = [
        ("host", 0o040755, b""),
        ("modules", 0o040755, b""),
        ("init", 0o100755, compile_init(work).read_bytes()),
    ]
    for number, path in enumerate(modules_in_order(modules, (*WANTED_MODULES, *more))):
        entries.append((f"modules/{number:02}-{module_name(path)}", 0o100644, module_bytes(path)))
    archive = work / "initramfs.cpio"
    archive.write_bytes(b"".join(cpio(entries)))
    return archive


def compile_init(work: Path) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise Missing("a C compiler", "apt-get install gcc libc6-dev")
    program = work / "init"
    command = [compiler, "-static", "-Os", "-o", str(program), str(HERE / "init.c")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Missing(f"a compiler that links statically ({done.stderr.strip()[-200:]})")
    return program


def modules_in_order(modules: Path, wanted: tuple[str, ...]) -> list[Path]:
    """The files of `wanted` and of all they depend on, dependencies first.

    Each module names its direct dependencies in its .modinfo section, so depmod is not needed.
    """
    files = {module_name(path): path for path in modules.rglob("*.ko*")}
    built_in = {module_name(Path(line)) for line in read_lines(modules / "modules.builtin")}
    order: list[Path] = []

    def add(name: str) -> None:
        if name in built_in:
            return
        if name not in files:
            raise Missing(f"module {name} in the kernel of {modules}")
        if files[name] in order:
            return
        for dependency in dependencies(module_bytes(files[name])):
            add(dependency)
        order.append(files[name])

    for name in wanted:
        add(name)
    return order


def module_name(path: Path) -> str:
    """'9pnet_virtio' of '.../9pnet-virtio.ko.xz': the kernel treats - and _ alike."""
    return path.name.split(".ko")[0].replace("-", "_")


def module_bytes(path: Path) -> bytes:
    """The module's ELF file, decompressed: finit_module takes packed ones only on some kernels."""
    packed = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(packed)
    if path.suffix == ".gz":
        return gzip.decompress(packed)
    if path.suffix == ".zst":
        if shutil.which("zstd") is None:
            raise Missing("zstd", "apt-get install zstd")
        return subprocess.run(["zstd", "-dc", str(path)], capture_output=True, check=True).stdout
    return packed


def dependencies(module: bytes) -> list[str]:
    found = re.search(rb"\0depends=([^\0]*)\0", module)
    names = found.group(1).decode() if found else ""
    return [name.replace("-", "_") for name in names.split(",") if name]


def cpio(entries: list[tuple[str, int, bytes]]) -> Iterator[bytes]:
    """A "newc" archive of (name, mode, content), as the kernel's initramfs reader wants it
    (Documentation/driver-api/early-userspace/buffer-format.rst)."""
    for inode, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], start=1):
        fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        header = b"070701" + b"".join(b"%08X" % value for value in fields)
        yield padded(header + name.encode() + b"\0")
        yield padded(content)


def padded(part: bytes) -> bytes:
    return part + b"\0" * (-len(part) % 4)


def read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
