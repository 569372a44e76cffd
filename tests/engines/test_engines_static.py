"""Engines that are linked into their program: their calls are led to the shim in memory, or one
line says why not, and the text is as ever."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import build_llama
import pytest
import rig
from drive_llama_server import Server
from elftools.elf.elffile import ELFFile
from rig import Engine, finished, model_path, numamirror_run, run_plain
from test_engines_check import check
from test_engines_mirror import TWO_REPLICAS

MODEL = "moe-Q8_0"
REASONS = {"stripped": "have no names any more", "strip -x": "(strip -x)"}

# prctl(2): from here on nothing writable becomes executable, also behind exec.
NO_NEW_CODE = """
import ctypes, os, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) != 0:
    sys.exit("this kernel has no PR_SET_MDWE (Linux 6.3)")
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture(params=REASONS)
def stripped(request: pytest.FixtureRequest, static: Engine, tmp_path: Path) -> Engine:
    """The same program without names, or without those that are private to one of its files."""
    if request.param == "stripped":
        engine: Engine = request.getfixturevalue("stripped_server")
        return engine
    source, target = build_llama.static_server() / "llama-server", tmp_path / "llama-server"
    subprocess.run(["strip", "--discard-all", "-o", str(target), str(source)], check=True)
    return Engine(request.param, static.driver, lambda: tmp_path, (MODEL,))


def reason(engine: Engine) -> str:
    return REASONS["stripped" if engine is rig.STRIPPED else engine.name]


def ended(
    engine: Engine, tmp_path: Path, *under: str, options: Sequence[str] = TWO_REPLICAS
) -> tuple[dict[str, Any], Any, list[str]]:
    """The driver's line, the mirror, and the lines of ours."""
    report = tmp_path / "run.json"
    run = [*numamirror_run(report, *options), *under]
    done = finished(engine.command(MODEL, "--under", " ".join(run)), {})
    # The engine writes a line of its log in several parts: ours may begin in the middle of one.
    lines = (line.partition("numamirror: ") for line in done.stderr.splitlines())
    said = [mark + rest for _, mark, rest in lines if mark]
    return json.loads(done.stdout), json.loads(report.read_text())["mirror"], said


def test_without_names_it_writes_its_own_text_and_a_line_says_why_it_is_not_mirrored(
    stripped: Engine, static: Engine, tmp_path: Path
) -> None:
    line, mirror, said = ended(stripped, tmp_path)
    assert line == run_plain(static, MODEL)
    assert mirror is None or mirror["mirrored_bytes"] == 0
    (why,) = [text for text in said if reason(stripped) in text]
    version = "ggml 0.25.3" if "strip -x" in why else "of a version that it does not tell"
    assert why.startswith("numamirror: llama-server (") and version in why


def test_check_says_so_beforehand(stripped: Engine) -> None:
    assert stripped.directory is not None
    verdict = check(str(stripped.directory() / "llama-server"))["verdict"]
    assert verdict["level"] == "policy only"
    assert reason(stripped) in verdict["why"] and "BUILD_SHARED_LIBS" in verdict["remedy"]


def test_where_code_may_not_change_it_writes_its_own_text_and_a_line_says_why(
    static: Engine, tmp_path: Path
) -> None:
    wrapper = tmp_path / "no_new_code.py"
    wrapper.write_text(NO_NEW_CODE)
    tried = subprocess.run([sys.executable, str(wrapper), "/bin/true"], check=False)
    if tried.returncode != 0:
        pytest.skip("this kernel has no PR_SET_MDWE (Linux 6.3)")
    line, mirror, said = ended(static, tmp_path, sys.executable, str(wrapper))
    assert line == run_plain(static, MODEL)
    assert mirror is None or mirror["mirrored_bytes"] == 0
    (reason,) = [text for text in said if "cannot be mirrored" in text]
    assert "allows no new code" in reason and "llama-server (ggml 0.25.3)" in reason


def test_shard_is_not_done_and_a_line_says_why(static: Engine, tmp_path: Path) -> None:
    options = ("--rehearse", "2", "--strategy", "shard", "--min-size", "1")
    line, mirror, said = ended(static, tmp_path, options=options)
    assert line == run_plain(static, MODEL)
    assert mirror["mirrored_bytes"] == 0 and mirror.get("sharded_bytes", 0) == 0
    (reason,) = [text for text in said if "shard is not possible" in text]
    assert "compiled into their callers" in reason


def test_its_functions_are_as_in_its_file_and_no_code_is_writable(
    static: Engine, tmp_path: Path
) -> None:
    program = build_llama.static_server() / "llama-server"
    report = tmp_path / "run.json"
    server = started(program, numamirror_run(report, *TWO_REPLICAS))
    try:
        (pid,) = running(program, server.process.pid)
        for mapping in Path(f"/proc/{pid}/maps").read_text().splitlines():
            assert "wx" not in mapping.split()[1], mapping
        for name, (start, inside, in_file) in functions_of(program, pid).items():
            assert inside == in_file, f"{name} at {start:#x}"
    finally:
        server.stop()
    assert json.loads(report.read_text())["mirror"]["coverage"] == 1.0


def started(program: Path, under: list[str]) -> Server:
    options = ["--host", "127.0.0.1", "--port", "0", "--offline", "--threads", "2"]
    return Server([*under, str(program), "--model", str(model_path(MODEL)), *options])


def running(program: Path, parent: int) -> list[int]:
    """The parent's children that run that program."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in children if Path(f"/proc/{pid}/exe").resolve() == program]


def functions_of(program: Path, pid: int) -> dict[str, tuple[int, bytes, bytes]]:
    """Of the functions that were redirected, without calls of their own: address, bytes in the
    process, bytes in the file."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    base = min(int(m.split("-")[0], 16) for m in maps if m.endswith(str(program)))
    found = {}
    with program.open("rb") as stream, Path(f"/proc/{pid}/mem").open("rb") as memory:
        file = ELFFile(stream)
        table: Any = file.get_section_by_name(".symtab")
        segments = [s.header for s in file.iter_segments("PT_LOAD")]
        for symbol in table.iter_symbols():
            if symbol["st_info"]["type"] != "STT_FUNC" or not is_seam(symbol.name):
                continue
            start, size = symbol["st_value"], symbol["st_size"]
            segment = next(s for s in segments if 0 <= start - s.p_vaddr < s.p_filesz)
            stream.seek(segment.p_offset + start - segment.p_vaddr)
            memory.seek(base + start)
            found[symbol.name] = (start, memory.read(size), stream.read(size))
    assert len(found) > 30
    return found


def is_seam(name: str) -> bool:
    return name.startswith("ggml_vec_dot_") or name in (
        "ggml_graph_compute",
        "ggml_cpu_extra_compute_forward",
        "ggml_backend_buffer_set_usage",
        "ggml_backend_buffer_free",
        "ggml_backend_tensor_set",
    )


# ---- the decoder by which calls are found, against a disassembler ----

LENGTHS = r"""
#include "static_x86.h"
#include <stdio.h>
int main(void) {
    for (unsigned value, count; scanf("%u", &count) == 1;) {
        unsigned char code[16] = {0};
        for (unsigned i = 0; i < count && i < sizeof code; ++i) {
            if (scanf("%x", &value) != 1) return 1;
            code[i] = (unsigned char)value;
        }
        size_t opcode, length = nm_x86_length(code, count, &opcode);
        if (length != count) printf("%02x %02x %02x: %zu, not %u\n", code[0], code[1], code[2],
                                    length, count);
    }
    return 0;
}
"""


@pytest.fixture
def lengths(tmp_path: Path) -> Callable[[str], str]:
    sources = rig.REPOSITORY / "native" / "src"
    program = tmp_path / "lengths"
    command = ["cc", "-O2", f"-I{sources}", "-x", "c", "-", str(sources / "static_x86.c")]
    subprocess.run([*command, "-o", str(program)], input=LENGTHS, text=True, check=True)
    return lambda text: (
        subprocess.run([program], input=text, text=True, capture_output=True, check=True).stdout
    )


def test_each_instruction_of_the_program_is_as_long_as_a_disassembler_says(
    static: Engine, lengths: Callable[[str], str]
) -> None:
    if shutil.which("objdump") is None:
        pytest.skip("needs objdump: apt-get install binutils")
    program = build_llama.static_server() / "llama-server"
    dump = subprocess.run(
        ["objdump", "-d", "-w", str(program)], capture_output=True, text=True, check=True
    )
    lines = [line.split("\t") for line in dump.stdout.splitlines()]
    codes = [fields[1].split() for fields in lines if len(fields) > 2]
    assert len(codes) > 500_000
    assert lengths("\n".join(f"{len(code)} {' '.join(code)}" for code in codes)) == ""
