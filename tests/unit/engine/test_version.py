"""Versions as files tell them, without running the engine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from numamirror_cli.engine.image import read_image
from numamirror_cli.engine.version import VERSION_NAMES, read_version

Compile = Callable[..., Path]

SHARED = ("-shared", "-fPIC", "-O2")
CONSTANT = 'const char *%s(void) { return "%s"; }\n'


def version(library: Path) -> str:
    image = read_image(library, VERSION_NAMES)
    assert image is not None
    return read_version([image])


def test_build_number_ggml_version_and_commit_are_read(compile_c: Compile) -> None:
    text = "int LLAMA_BUILD_NUMBER = 10434;\n"
    text += CONSTANT % ("ggml_version", "0.20.0") + CONSTANT % ("ggml_commit", "7e4c0a9")
    assert version(compile_c("lib.so", text, *SHARED)) == "b10434, ggml 0.20.0 (7e4c0a9)"


def test_the_engines_own_version_comes_first(compile_c: Compile) -> None:
    text = CONSTANT % ("ggml_version", "0.26.0") + CONSTANT % ("llama_version", "0.6.0")
    assert version(compile_c("lib.so", text, *SHARED)) == "0.6.0, ggml 0.26.0"


@pytest.mark.parametrize("protection", ["full", "none"])
def test_code_with_and_without_branch_protection_is_read(
    compile_c: Compile, protection: str
) -> None:
    library = compile_c(
        "lib.so", CONSTANT % ("ggml_version", "1.2.3"), *SHARED, f"-fcf-protection={protection}"
    )
    assert version(library) == "ggml 1.2.3"


# adrp x0, PAGES; add x0, x0, #0x40; ret: each page of the file begins with a version at 0x40.
AARCH64 = """
asm(".data\\n.balign 4096\\n.zero 0x40\\n.asciz \\"before\\"\\n"
    ".balign 4096\\n.globl ggml_version\\n.type ggml_version, @object\\nggml_version:\\n%s"
    ".4byte %s, 0x91010000, 0xd65f03c0\\n.balign 64\\n.asciz \\"here\\"\\n"
    ".balign 4096\\n.zero 0x40\\n.asciz \\"after\\"\\n.text");
"""


@pytest.mark.parametrize("bti", ["", ".4byte 0xd503245f\\n"])
@pytest.mark.parametrize(
    ("adrp", "text"), [("0x90000000", "here"), ("0xb0000000", "after"), ("0xf0ffffe0", "before")]
)
def test_aarch64_code_is_read(compile_c: Compile, adrp: str, text: str, bti: str) -> None:
    library = compile_c("lib.so", AARCH64 % (bti, adrp), *SHARED)
    image = read_image(library, VERSION_NAMES)
    assert image is not None
    elf = replace(image.elf, machine="EM_AARCH64")
    assert read_version([replace(image, elf=elf)]) == f"ggml {text}"


def test_build_numbers_that_mean_nothing_are_left_out(compile_c: Compile) -> None:
    for value in ("0", "1", "-5", "2000000000"):
        text = f"int LLAMA_BUILD_NUMBER = {value};\n"
        assert version(compile_c(f"lib{value}.so", text, *SHARED)) == ""


def test_a_function_that_does_more_is_not_guessed_at(compile_c: Compile) -> None:
    text = "extern int puts(const char *);\n"
    text += 'const char *ggml_version(void) { puts("x"); return "1.0"; }'
    assert version(compile_c("lib.so", text, *SHARED)) == ""


def test_a_version_that_is_no_text_is_left_out(compile_c: Compile) -> None:
    text = CONSTANT % ("ggml_version", "\\x01\\xff\\x1b[2J")
    assert version(compile_c("lib.so", text, *SHARED)) == ""


@pytest.mark.parametrize("directory", ["site-packages", "unpacked"])
def test_the_package_that_brought_a_library_is_named(
    compile_c: Compile, tmp_path: Path, directory: str
) -> None:
    site = tmp_path / directory
    (site / "engine/lib").mkdir(parents=True)
    library = compile_c(f"{directory}/engine/lib/libx.so", "int x;", *SHARED)
    info = site / "engine_bindings-3.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: engine-bindings\nVersion: 3.2\n")
    (info / "RECORD").write_text("engine/__init__.py,,\nengine/lib/libx.so,sha256=x,1\n")
    assert version(library) == "package engine-bindings 3.2"


def test_another_library_of_the_program_may_know_the_version_and_not_the_package(
    compile_c: Compile, tmp_path: Path
) -> None:
    (tmp_path / "module").mkdir()
    (tmp_path / "module/package.json").write_text('{"name": "other", "version": "1.0"}')
    other = compile_c("module/libo.so", CONSTANT % ("ggml_version", "0.26.0"), *SHARED)
    images = [read_image(f, VERSION_NAMES) for f in (compile_c("lib.so", "int x;", *SHARED), other)]
    engine, bystander = (image for image in images if image is not None)
    assert read_version([engine], [bystander]) == "ggml 0.26.0"


def test_an_npm_package_is_named(compile_c: Compile, tmp_path: Path) -> None:
    (tmp_path / "node_modules/engine/bins").mkdir(parents=True)
    library = compile_c("node_modules/engine/bins/libx.so", "int x;", *SHARED)
    described = tmp_path / "node_modules/engine/package.json"
    described.write_text('{"name": "@some/engine", "version": "3.21.1"}')
    assert version(library) == "package @some/engine 3.21.1"
    for broken in ("", "{", "[]", '{"name": "x"}'):
        described.write_text(broken)
        assert version(library) == ""


def test_a_library_of_this_environment_is_told_by_its_package() -> None:
    import psutil

    (library, *_) = Path(psutil.__file__).parent.glob("*.so")
    if "site-packages" not in str(library):
        pytest.skip(f"psutil lies outside site-packages in {sys.prefix}")
    assert version(library) == f"package psutil {psutil.__version__}"
