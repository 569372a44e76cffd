"""Builds llama.cpp from the sources inside llama-cpp-python's sdist, once, into the tests' cache:
as that package does, in shared libraries, and as a program with everything inside.

Takes about ten minutes on two cores, so that only `make test-engines-full` asks for it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

import fetch
from paths import cache_dir

VERSION = "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
WISH = "NUMAMIRROR_BUILD_ENGINES"

# Any x86_64 of the last ten years; no network, no graphical page, no tests.
SETTINGS = (
    *("-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=OFF", "-DGGML_AVX2=ON", "-DGGML_FMA=ON"),
    *("-DGGML_F16C=ON", "-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF"),
    *("-DLLAMA_BUILD_SERVER=ON", "-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF"),
)

# Off by default; it changes nothing for who does not ask for workers.
RPC = "-DGGML_RPC=ON"


def llama_cpp_python() -> Path:
    """A directory for PYTHONPATH with llama_cpp and its libraries, those of a build for RPC too."""
    directory = cache_dir() / f"llama-cpp-python-{VERSION}-rpc"
    if not directory.is_dir():
        source = sources()
        shared = ("-DBUILD_SHARED_LIBS=ON", "-DCMAKE_INSTALL_RPATH=$ORIGIN", RPC)
        built = build("shared", "llama", *shared, "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON")
        with fetch.new_directory(directory) as target:
            shutil.copytree(source / "llama_cpp", target / "llama_cpp")
            (target / "llama_cpp" / "lib").mkdir(exist_ok=True)
            for library in (built / "bin").glob("lib*.so*"):
                shutil.copy(library, target / "llama_cpp" / "lib", follow_symlinks=False)
        shutil.rmtree(built)
    return directory


def static_server() -> Path:
    """A directory with a llama-server that has all of ggml inside, its symbol table kept."""
    directory = cache_dir() / f"llama-server-static-{VERSION}"
    if not directory.is_dir():
        built = build("static", "llama-server", "-DBUILD_SHARED_LIBS=OFF")
        with fetch.new_directory(directory) as target:
            shutil.copy(built / "bin" / "llama-server", target)
        shutil.rmtree(built)
    return directory


def stripped_server() -> Path:
    """The same without names."""
    directory = cache_dir() / f"llama-server-stripped-{VERSION}"
    if not directory.is_dir():
        source = static_server()
        with fetch.new_directory(directory) as target:
            stripped = str(target / "llama-server")
            fetch.run(["strip", "-o", stripped, str(source / "llama-server")], target)
    return directory


def static_worker() -> Path:
    """A directory with a ggml-rpc-server that has all of ggml inside, its symbol table kept, and,
    in `client`, the libraries of a llama.cpp that speaks to it."""
    directory = cache_dir() / f"ggml-rpc-server-static-{VERSION}"
    if not directory.is_dir():
        libraries = llama_cpp_python() / "llama_cpp" / "lib"
        built = build("static-worker", "ggml-rpc-server", "-DBUILD_SHARED_LIBS=OFF", RPC)
        with fetch.new_directory(directory) as target:
            shutil.copy(built / "bin" / "ggml-rpc-server", target)
            shutil.copytree(libraries, target / "client", symlinks=True)
        shutil.rmtree(built)
    return directory


def sources() -> Path:
    if not os.environ.get(WISH):
        raise fetch.Unavailable(f"is built by `make test-engines-full` ({WISH}=1)")
    directory = cache_dir() / f"llama-cpp-python-{VERSION}-source"
    if not directory.is_dir():
        with fetch.new_directory(directory) as target, tempfile.TemporaryDirectory() as scratch:
            fetch.say(f"llama-cpp-python {VERSION}: sources, 77 MB")
            pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
            source_only = ["--no-deps", "--no-binary=llama-cpp-python", "--dest", scratch]
            fetch.run([*pip, *source_only, f"llama-cpp-python=={VERSION}"], Path(scratch))
            archive = fetch.only_file(Path(scratch), "*.tar.gz")
            fetch.check_sha256(archive, SHA256)
            with tarfile.open(archive) as tar:
                if hasattr(tarfile, "data_filter"):
                    tar.extraction_filter = tarfile.data_filter
                tar.extractall(target)
    return directory / f"llama_cpp_python-{VERSION}"


def build(name: str, target: str, *settings: str) -> Path:
    """The build tree, kept until its product is in place: an interrupted build goes on."""
    tree = cache_dir() / f"llama-{name}-{VERSION}-build"
    vendor = sources() / "vendor" / "llama.cpp"
    fetch.say(f"llama.cpp: building {target} ({name}), some minutes")
    fetch.run(["cmake", "-S", str(vendor), "-B", str(tree), *SETTINGS, *settings], vendor)
    command = ["cmake", "--build", str(tree), "--target", target, f"-j{os.cpu_count()}"]
    fetch.run(command, vendor, seconds=3600)
    return tree
