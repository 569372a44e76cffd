"""The wheels: what is in them, how old a system may be, and that they work on both processors."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from packaging_rig import REPOSITORY, need, need_file

from numamirror_cli import __version__
from numamirror_cli.cli import COMMANDS

PROCESSORS = ("x86_64", "aarch64")
OLDEST_GLIBC = (2, 17)
NATIVE_FILES = ("numamirror_cli/lib/libnumamirror.so", "numamirror_cli/lib/numamirror-bandwidth")
SHARE = f"numamirror-{__version__}.data/data/share"
# Where Debian's libc for the other processor lies.
ARM_ROOT = "/usr/aarch64-linux-gnu"

Wheel = Callable[[str], Path]
Unpacked = Callable[[str], Path]

here_is_x86_64 = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="needs an x86_64 machine to run on"
)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_the_name_promises_any_python_3_and_an_old_glibc(processor: str, wheel: Wheel) -> None:
    name = wheel(processor).name
    assert name.startswith(f"numamirror-{__version__}-py3-none-")
    assert f"manylinux_2_17_{processor}" in name


@pytest.mark.parametrize("processor", PROCESSORS)
def test_it_has_all_that_an_installation_needs(processor: str, wheel: Wheel) -> None:
    with zipfile.ZipFile(wheel(processor)) as archive:
        names = set(archive.namelist())
    wanted = {
        *NATIVE_FILES,
        *(f"{SHARE}/man/man1/numamirror-{name}.1" for name in COMMANDS),
        f"{SHARE}/man/man1/numamirror.1",
        f"{SHARE}/bash-completion/completions/numamirror",
        f"{SHARE}/zsh/site-functions/_numamirror",
        f"{SHARE}/fish/vendor_completions.d/numamirror.fish",
        f"{SHARE}/doc/numamirror/json.md",
        f"{SHARE}/doc/numamirror/fleet/workers.yaml",
        *(
            str(path.relative_to(REPOSITORY))
            for path in REPOSITORY.glob("numamirror_cli/**/*")
            if path.suffix in (".py", ".json", ".bash", ".fish")
        ),
    }
    assert wanted - names == set()


@pytest.mark.parametrize("processor", PROCESSORS)
def test_it_has_nothing_that_it_does_not_need(processor: str, wheel: Wheel) -> None:
    with zipfile.ZipFile(wheel(processor)) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert tops == {
        "numamirror_cli",
        f"numamirror-{__version__}.data",
        f"numamirror-{__version__}.dist-info",
    }


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("file", NATIVE_FILES)
def test_native_code_needs_libc_alone_and_no_newer_one(
    processor: str, file: str, unpacked: Unpacked
) -> None:
    with (unpacked(processor) / file).open("rb") as stream:
        elf = ELFFile(stream)
        assert elf.get_machine_arch() == {"x86_64": "x64", "aarch64": "AArch64"}[processor]
        assert libraries(elf) <= {"libc.so.6", "libpthread.so.0", "libdl.so.2"}
        versions = set(glibc_versions(elf))
    assert versions
    assert max(versions) <= OLDEST_GLIBC


def libraries(elf: ELFFile) -> set[str]:
    dynamic = elf.get_section_by_name(".dynamic")
    return {tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"}


def glibc_versions(elf: ELFFile) -> Iterator[tuple[int, ...]]:
    for _, versions in elf.get_section_by_name(".gnu.version_r").iter_versions():
        for version in versions:
            number = version.name.removeprefix("GLIBC_")
            yield tuple(int(part) for part in number.split("."))


@pytest.mark.parametrize("processor", PROCESSORS)
def test_auditwheel_agrees(processor: str, wheel: Wheel) -> None:
    pytest.importorskip("auditwheel", reason="pip install the extra `release`")
    show = [sys.executable, "-m", "auditwheel", "show", str(wheel(processor))]
    done = subprocess.run(show, capture_output=True, text=True, check=True)
    said = " ".join(done.stdout.split())
    assert f'consistent with the following platform tag: "manylinux_2_17_{processor}"' in said


# ---- does it work? ----


@here_is_x86_64
def test_the_shim_loads_into_a_program_here(unpacked: Unpacked) -> None:
    done = preloaded([sys.executable, "-c", "print('as ever')"], unpacked("x86_64"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "as ever\n", "")


@here_is_x86_64
def test_the_shim_loads_under_the_oldest_glibc_that_debian_has(
    unpacked: Unpacked, old_glibc: Path, tmp_path: Path
) -> None:
    loader = next(old_glibc.rglob("ld-linux-x86-64.so.2"))
    libc = next(old_glibc.rglob("libc.so.6"))
    old = [str(loader), "--library-path", str(libc.parent)]
    version = subprocess.run([*old, str(libc)], capture_output=True, text=True)
    assert "release version 2.31" in version.stdout
    program = build_native_tests("x86_64", [], tmp_path, "test_config") / "tests" / "test_config"
    shim = unpacked("x86_64") / NATIVE_FILES[0]
    command = [*old, "--preload", str(shim), str(program)]
    done = subprocess.run(command, env={"LD_BIND_NOW": "1"}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="session")
def old_glibc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the C library of Debian 11, unpacked and not installed."""
    apt, dpkg = need("apt-get", "apt"), need("dpkg-deb", "dpkg")
    state = tmp_path_factory.mktemp("debian11")
    (state / "lists").mkdir()
    (state / "archives" / "partial").mkdir(parents=True)
    mirror = debian_mirror()
    (state / "sources.list").write_text(f"deb {mirror} bullseye main\n")
    options = [
        f"-oDir::Etc::SourceList={state}/sources.list",
        "-oDir::Etc::SourceParts=/dev/null",
        f"-oDir::State::Lists={state}/lists",
        f"-oDir::Cache::Archives={state}/archives",
        "-oDir::State::Status=/dev/null",
        "-oDir::Cache::pkgcache=",
        "-oDir::Cache::srcpkgcache=",
        "-oAPT::Sandbox::User=root",
    ]
    for order in (["update"], ["download", "libc6"]):
        done = subprocess.run([apt, "-qq", *options, *order], cwd=state, capture_output=True,
                              text=True)  # fmt: skip
        if done.returncode:
            pytest.skip(f"Debian 11's libc6 cannot be had from {mirror}: {done.stderr.strip()}")
    (package,) = state.glob("libc6_*.deb")
    subprocess.run([dpkg, "-x", package, state / "root"], check=True)
    return state / "root"


def debian_mirror() -> str:
    """The one that this system uses, by its own list."""
    lists = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    text = "\n".join(path.read_text() for path in lists if path.is_file())
    found = re.search(r"^(?:URIs:|deb(?: \[.*\])?) *(https?://\S+/debian)/?\s", text, re.MULTILINE)
    if found is None:
        pytest.skip("this system has no Debian mirror in its apt sources")
    return found[1]


@here_is_x86_64
def test_a_real_engine_is_mirrored_by_the_shim_of_the_wheel(
    unpacked: Unpacked, tmp_path: Path
) -> None:
    pytest.importorskip("xllamacpp", reason="pip install the extra `demo`")
    sys.path.insert(0, str(REPOSITORY / "tests" / "engines"))
    import fetch

    command = [sys.executable, "-m", "numamirror_cli", "run", "--rehearse", "2"]
    command += ["--require", "mirror", "--report", "summary", "--"]
    command += [sys.executable, str(REPOSITORY / "docs" / "recipes" / "answer.py")]
    root = unpacked("x86_64")
    done = subprocess.run(
        [*command, "-m", str(fetch.gemma())], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(root), "PYTHONSAFEPATH": "1"}, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "coverage" in done.stderr
    assert "France" in done.stdout


@pytest.mark.parametrize("processor", PROCESSORS)
def test_core_and_seams_pass_their_tests_on_that_processor(processor: str, tmp_path: Path) -> None:
    run = runner(processor)
    build = build_native_tests(processor, run, tmp_path)
    # qemu-user has no seccomp, and other pages than those of which it tells.
    left_out = ["--exclude-regex", "^filter$|^first_touch$"] if run else []
    ctest = [tool("ctest"), "--test-dir", str(build), "--output-on-failure", "--timeout", "600"]
    done = subprocess.run([*ctest, *left_out], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    # CMake 4 leaves out that none failed.
    passed = re.search(r"100% tests passed(?:, 0 tests failed)? out of (\d+)", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 10


def test_the_aarch64_shim_loads_into_a_program_there(unpacked: Unpacked, tmp_path: Path) -> None:
    run = runner("aarch64")
    shim = unpacked("aarch64") / NATIVE_FILES[0]
    program = build_native_tests("aarch64", run, tmp_path, "test_config") / "tests" / "test_config"
    environment = {**os.environ, "LD_BIND_NOW": "1", "LD_PRELOAD": str(shim)}
    done = subprocess.run([*run, str(program)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "cannot be preloaded" not in done.stderr
    # A library that does not exist is complained of: the loader did try.
    environment["LD_PRELOAD"] += ".not"
    done = subprocess.run([*run, str(program)], env=environment, capture_output=True, text=True)
    assert "cannot be preloaded" in done.stderr


def runner(processor: str) -> list[str]:
    """What to put before a program of that processor."""
    if platform.machine() == processor:
        return []
    if processor != "aarch64":
        pytest.skip(f"nothing here runs programs for {processor}")
    emulator = need("qemu-aarch64-static", "qemu-user-static")
    return [emulator, "-L", str(need_file(ARM_ROOT, "libc6-arm64-cross"))]


def build_native_tests(processor: str, run: list[str], work: Path, target: str = "all") -> Path:
    """native/tests in a build directory, compiled as the wheel's shim is."""
    pytest.importorskip("ziglang", reason="pip install the extra `release`")
    sys.path.insert(0, str(REPOSITORY / "tools"))
    from build_wheels import cmake_options, zig_compiler

    build = work / "build"
    options = cmake_options(zig_compiler(work, processor), processor)
    options += ["-DBUILD_TESTING=ON", f"-DCMAKE_CROSSCOMPILING_EMULATOR={';'.join(run)}"]
    options += ["-DCMAKE_EXE_LINKER_FLAGS="]  # an engine inside a program keeps its names
    cmake = tool("cmake")
    configure = [cmake, "-S", str(REPOSITORY / "native"), "-B", str(build), *options]
    for command in (configure, [cmake, "--build", str(build), "-j2", "--target", target]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return build


def tool(name: str) -> str:
    """Of the package `cmake`, which the extra `dev` brings: the system may have none."""
    installed = Path(sys.executable).parent / name
    return str(installed) if installed.exists() else name


def preloaded(command: list[str], root: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LD_PRELOAD": str(root / NATIVE_FILES[0]), "LD_BIND_NOW": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True)
