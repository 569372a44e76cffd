"""Which version an engine is, as far as its files say: build number, ggml version, package.

Nothing of the engine is run for that. llama.cpp keeps its build number in a variable and ggml
returns its version from a function that does nothing else; wheels and npm packages name theirs in
their metadata.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from numamirror_cli.engine.directories import matching
from numamirror_cli.engine.elf import errors_of_broken_files
from numamirror_cli.engine.image import Image

_BUILD_NUMBER, _GGML_VERSION, _GGML_COMMIT = "LLAMA_BUILD_NUMBER", "ggml_version", "ggml_commit"
_OWN_VERSIONS = ("llama_version", "whisper_version")
VERSION_NAMES = frozenset({_BUILD_NUMBER, _GGML_VERSION, _GGML_COMMIT, *_OWN_VERSIONS})

_LONGEST = 64
_ENDBR64, _BTI = b"\xf3\x0f\x1e\xfa", struct.pack("<I", 0xD503245F)
# lea rax, [rip + offset]; mov eax, address (in programs that are always loaded there); ret.
_LEA_RAX, _MOV_EAX, _RET = b"\x48\x8d\x05", b"\xb8", b"\xc3"


def read_version(engine: Iterable[Image], bystanders: Iterable[Image] = ()) -> str:
    """As in "0.4.0, b10434, ggml 0.20.0 (abc1234), package xllamacpp 2026.10"; "" for unknown.

    bystanders: other files of the program, which may know the version and come in packages of
    their own.
    """
    own_files = tuple(engine)
    images = (*own_files, *bystanders)
    own = _first(_text(image, name) for name in _OWN_VERSIONS for image in images)
    build = next((n for image in images if (n := _build_number(image))), 0)
    ggml = _first(_text(image, _GGML_VERSION) for image in images)
    commit = _first(_text(image, _GGML_COMMIT) for image in images)
    parts = [
        own,
        f"b{build}" if build else "",
        f"ggml {ggml}" if ggml else "",
        f"({commit})" if commit != "unknown" and commit else "",
    ]
    package = _first(_package(image.path) for image in own_files)
    return ", ".join(part for part in (*parts, package) if part).replace(", (", " (")


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")


def _build_number(image: Image) -> int:
    address = _address(image, _BUILD_NUMBER)
    content = b"" if address is None else _at(image.path, address, 4)
    number = int.from_bytes(content, "little", signed=True) if len(content) == 4 else 0
    # 0 and 1 stand for builds outside a git repository, and beyond that there is only garbage.
    return number if 1 < number < 1_000_000 else 0


def _address(image: Image, name: str) -> int | None:
    """Of a function or variable, by the symbols for the loader, else by those for debuggers."""
    return image.defines.get(name, image.hidden.get(name))


def _text(image: Image, function: str) -> str:
    """What a function returns that returns a constant; "" if its code does anything else."""
    address = _address(image, function)
    if address is None:
        return ""
    code = _at(image.path, address, 24)
    constant = (_x86_64_constant if image.elf.machine == "EM_X86_64" else _aarch64_constant)(
        code, address
    )
    text = b"" if constant is None else _at(image.path, constant, _LONGEST).partition(b"\0")[0]
    return text.decode() if text.isascii() and text.decode().isprintable() else ""


def _x86_64_constant(code: bytes, address: int) -> int | None:
    skipped = len(_ENDBR64) if code.startswith(_ENDBR64) else 0
    lea = code[skipped : skipped + 8]
    if lea.startswith(_MOV_EAX) and lea[5:6] == _RET:
        return int.from_bytes(lea[1:5], "little")
    if not lea.startswith(_LEA_RAX) or lea[7:] != _RET:
        return None
    (offset,) = struct.unpack_from("<i", lea, 3)
    return int(address + skipped + 7 + offset)


def _aarch64_constant(code: bytes, address: int) -> int | None:
    """adrp x0, page; add x0, x0, #offset; ret."""
    skipped = len(_BTI) if code.startswith(_BTI) else 0
    if len(code) < skipped + 12:
        return None
    adrp, add, ret = struct.unpack_from("<III", code, skipped)
    if adrp & 0x9F00001F != 0x90000000 or add & 0xFFC003FF != 0x91000000 or ret != 0xD65F03C0:
        return None
    pages = (adrp >> 29 & 3) | (adrp >> 5 & 0x7FFFF) << 2
    signed = pages - (1 << 21) if pages & 1 << 20 else pages
    return int(((address + skipped) & ~0xFFF) + (signed << 12) + (add >> 10 & 0xFFF))


def _at(path: Path, address: int, count: int) -> bytes:
    """Up to `count` bytes that the file has at that address when it is loaded at 0."""
    from elftools.elf.elffile import ELFFile

    with suppress(*errors_of_broken_files()), path.open("rb") as stream:
        for segment in ELFFile(stream).iter_segments("PT_LOAD"):
            start = address - segment["p_vaddr"]
            if 0 <= start < segment["p_filesz"]:
                stream.seek(segment["p_offset"] + start)
                return stream.read(min(count, segment["p_filesz"] - start))
    return b""


def _package(library: Path) -> str:
    """The Python distribution or the npm package that brought a library."""
    inside = library.resolve()
    return _first(
        text
        for directory in inside.parents
        for text in (_distribution(directory, inside), _npm_package(directory))
    )


def _distribution(site: Path, library: Path) -> str:
    """Of those installed in a directory, the one that has the library among its files."""
    if not matching(site, "*.dist-info"):
        return ""
    import importlib.metadata  # slow, and of use to engines in Python packages alone

    inside = library.relative_to(site).as_posix()
    for distribution in importlib.metadata.distributions(path=[str(site)]):
        record = distribution.read_text("RECORD") or ""
        if f"\n{inside}," in f"\n{record}":
            return f"package {distribution.metadata['Name']} {distribution.version}"
    return ""


def _npm_package(directory: Path) -> str:
    """npm unpacks each package with its package.json on top."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        described = json.loads((directory / "package.json").read_text(encoding="utf-8"))
        return f"package {described['name']} {described['version']}"
    return ""
