"""Which libraries a program loads, against the loader's own answer."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from numamirror_cli.engine.libraries import linked_files

Compile = Callable[..., Path]

LIBRARY = "int one(void) { return 1; }"
USER = "extern int one(void); int main(void) { return one() - 1; }"
SHARED = ("-shared", "-fPIC")


def asked_of_the_loader(program: Path, **environ: str) -> set[Path]:
    """What ldd says, links resolved, without the loader itself."""
    if not shutil.which("ldd"):
        pytest.skip("ldd is not installed")
    done = subprocess.run(
        ["ldd", program], env={**os.environ, **environ}, capture_output=True, text=True, check=True
    )
    found = {
        Path(line.partition("=>")[2].split()[0]).resolve()
        for line in done.stdout.splitlines()
        if "=> /" in line
    }
    return {path for path in found if not path.name.startswith("ld-linux")}


def followed(program: Path, **environ: str) -> set[Path]:
    files = linked_files(program, environ).files
    return {path.resolve() for path in files[1:] if not path.name.startswith("ld-linux")}


@pytest.mark.parametrize("name", ["ls", "cc", "python3", "git", "qemu-system-x86_64"])
def test_a_program_of_the_system_is_followed_as_the_loader_does(name: str) -> None:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    with Path(program).open("rb") as file:
        if file.read(4) != b"\x7fELF":
            pytest.skip(f"{name} is a script here")
    assert followed(Path(program)) == asked_of_the_loader(Path(program))


@pytest.fixture
def nested(compile_c: Compile, tmp_path: Path) -> Path:
    """libone.so in lib/, of which PROGRAM knows by an option that each test chooses."""
    (tmp_path / "lib").mkdir()
    return compile_c("lib/libone.so", LIBRARY, *SHARED)


@pytest.mark.parametrize("tag", ["--enable-new-dtags", "--disable-new-dtags"])
def test_rpath_and_runpath_with_origin_are_followed(
    compile_c: Compile, nested: Path, tag: str
) -> None:
    where = f"-Wl,{tag},-rpath,$ORIGIN/lib"
    program = compile_c("engine", USER, f"-L{nested.parent}", "-l:libone.so", where)
    assert nested.resolve() in followed(program) == asked_of_the_loader(program)


def test_the_library_path_comes_before_runpath_and_after_rpath(
    compile_c: Compile, nested: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = compile_c("other/libone.so", LIBRARY, *SHARED)
    for tag, wanted in (("--enable-new-dtags", other), ("--disable-new-dtags", nested)):
        link = (f"-L{nested.parent}", "-l:libone.so", f"-Wl,{tag},-rpath,{nested.parent}")
        program = compile_c(f"engine{tag}", USER, *link)
        found = followed(program, LD_LIBRARY_PATH=str(other.parent))
        assert wanted.resolve() in found
        assert found == asked_of_the_loader(program, LD_LIBRARY_PATH=str(other.parent))


def test_rpath_of_the_program_counts_for_the_libraries_of_its_libraries(
    compile_c: Compile, nested: Path
) -> None:
    middle = compile_c(
        "lib/libmiddle.so",
        "extern int one(void); int two(void) { return one(); }",
        *(*SHARED, f"-L{nested.parent}", "-l:libone.so"),
    )
    user = USER.replace("one", "two")
    link = (f"-L{middle.parent}", "-l:libmiddle.so", "-Wl,--unresolved-symbols=ignore-all")
    for tag in ("--disable-new-dtags", "--enable-new-dtags"):
        program = compile_c(f"engine{tag}", user, *link, f"-Wl,{tag},-rpath,{middle.parent}")
        assert followed(program) == asked_of_the_loader(program)


def test_the_library_path_of_a_bundled_loader_counts(compile_c: Compile, nested: Path) -> None:
    program = compile_c("engine", USER, f"-L{nested.parent}", "-l:libone.so")
    assert linked_files(program, {}).missing == ("libone.so",)
    options = ("--inhibit-cache", "--library-path", str(nested.parent))
    linked = linked_files(program, {}, options)
    assert nested in linked.files and linked.missing == ()


def test_a_library_for_another_machine_is_passed_over(compile_c: Compile, nested: Path) -> None:
    program = compile_c("engine", USER, f"-L{nested.parent}", "-l:libone.so")
    image = bytearray(nested.read_bytes())
    image[18] = 243  # EM_RISCV
    nested.write_bytes(image)
    found = linked_files(program, {"LD_LIBRARY_PATH": str(nested.parent)})
    assert found.missing == ("libone.so",)
