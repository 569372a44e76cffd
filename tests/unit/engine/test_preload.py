"""Will the preload be honoured? Asked of real programs of every kind (cases S03-S08)."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import numamirror_cli
from numamirror_cli.engine.preload import Preload, extended_preload, judge_preload
from numamirror_cli.engine.privileges import Caller, this_caller
from numamirror_cli.engine.shim import Shim, find_shim
from numamirror_cli.engine.status_layout import MARK, VERSION, StatusLayout, layout_in
from numamirror_cli.engine.target import find_target

Script = Callable[..., Path]
Compile = Callable[..., Path]

REPOSITORY = Path(__file__).resolve().parents[3]
PROGRAM = "int main(void) { return 0; }"
NOBODY = 65534


def judge(
    command: list[str], shim: Path, *, caller: Caller | None = None, **environ: str
) -> Preload:
    environment = {"PATH": os.environ["PATH"], **environ}
    target = find_target(command, environment)
    return judge_preload(target, Shim(shim), caller or this_caller(), environment)


def starts_with(preload: Preload, program: Path) -> subprocess.CompletedProcess[str]:
    """The program, really started with the preload that was decided on."""
    environ = {**os.environ, "LD_PRELOAD": extended_preload({}, preload.entries)}
    return subprocess.run([program], env=environ, capture_output=True, text=True, check=False)


def test_an_ordinary_program_is_reached(compile_c: Compile, shim: Path) -> None:
    assert judge([str(compile_c("engine", PROGRAM))], shim) == Preload((str(shim),), True)


def test_a_script_is_reached_through_its_interpreter(script: Script, shim: Path) -> None:
    assert judge([str(script("start", "#!/bin/sh\n"))], shim).reaches_program


def test_a_static_program_gets_policy_only_but_its_children_may_be_reached(
    compile_c: Compile, shim: Path
) -> None:
    preload = judge([str(compile_c("engine", PROGRAM, "-static"))], shim)
    assert not preload.reaches_program
    assert preload.entries == (str(shim),)
    assert preload.notice is not None
    assert "policy only" in preload.notice.what and "static" in preload.notice.why


def test_a_static_pie_program_gets_policy_only(compile_c: Compile, shim: Path) -> None:
    preload = judge([str(compile_c("engine", PROGRAM, "-static-pie", "-fPIE"))], shim)
    assert not preload.reaches_program and preload.notice is not None
    assert "static" in preload.notice.why


def test_a_musl_program_is_left_alone_and_starts(compile_c: Compile, shim: Path) -> None:
    engine = compile_c("engine", PROGRAM, compiler="musl-gcc")
    preload = judge([str(engine)], shim)
    assert preload.entries == () and not preload.reaches_program
    assert preload.notice is not None
    assert preload.notice.why == "it uses musl's loader, and the shim is built for glibc"
    assert starts_with(preload, engine).returncode == 0


def test_a_program_for_another_machine_is_left_alone(compile_c: Compile, shim: Path) -> None:
    engine = compile_c("engine", PROGRAM)
    image = bytearray(engine.read_bytes())
    image[18:20] = struct.pack("<H", 243)  # EM_RISCV
    engine.write_bytes(image)
    preload = judge([str(engine)], shim)
    assert preload.entries == ()
    assert preload.notice is not None and "RISCV" in preload.notice.why


@pytest.mark.parametrize(
    ("bits", "caller", "word"),
    [(0o4755, Caller(NOBODY, NOBODY), "setuid"), (0o2755, Caller(os.getuid(), NOBODY), "setgid")],
)
def test_a_setuid_or_setgid_program_drops_the_preload(
    compile_c: Compile, shim: Path, bits: int, caller: Caller, word: str
) -> None:
    engine = compile_c("engine", PROGRAM)
    _needs_suid_mount(engine)
    engine.chmod(bits)
    preload = judge([str(engine)], shim, caller=caller)
    assert not preload.reaches_program
    assert preload.notice is not None and word in preload.notice.why
    assert "numamirror run --" in preload.notice.remedy


def test_a_setuid_program_of_the_caller_raises_nothing(compile_c: Compile, shim: Path) -> None:
    engine = compile_c("engine", PROGRAM)
    engine.chmod(0o4755)
    assert judge([str(engine)], shim).reaches_program


def test_no_new_privileges_lets_the_preload_through(compile_c: Compile, shim: Path) -> None:
    engine = compile_c("engine", PROGRAM)
    engine.chmod(0o4755)
    caller = Caller(NOBODY, NOBODY, no_new_privileges=True)
    assert judge([str(engine)], shim, caller=caller).reaches_program


def test_file_capabilities_drop_the_preload_and_ambient_ones_are_suggested(
    compile_c: Compile, shim: Path
) -> None:
    engine = compile_c("engine", PROGRAM)
    _needs_suid_mount(engine)
    # struct vfs_cap_data, revision 2, effective: CAP_SYS_NICE permitted.
    value = struct.pack("<5I", 0x02000001, 1 << 23, 0, 0, 0)
    try:
        os.setxattr(engine, "security.capability", value)
    except OSError as error:
        pytest.skip(f"file capabilities cannot be set here: {error}")
    preload = judge([str(engine)], shim, caller=Caller(NOBODY, NOBODY))
    assert not preload.reaches_program
    assert preload.notice is not None
    assert "file capabilities" in preload.notice.why and "ambient" in preload.notice.remedy
    # The kernel raises nothing for root, so the loader honours the preload.
    assert judge([str(engine)], shim, caller=Caller(0, 0)).reaches_program


def test_env_i_is_named_as_what_drops_the_preload(compile_c: Compile, shim: Path) -> None:
    engine = compile_c("engine", PROGRAM)
    preload = judge(["env", "-i", str(engine)], shim)
    assert not preload.reaches_program
    assert preload.notice is not None and "env -i" in preload.notice.why


def test_ours_comes_after_libasan_and_the_program_starts(compile_c: Compile, shim: Path) -> None:
    engine = compile_c("engine", PROGRAM, "-fsanitize=address")
    preload = judge([str(engine)], shim)
    if not preload.entries[0].startswith("libasan.so"):
        pytest.skip("this compiler links the sanitizer's runtime statically")
    assert preload.entries[1:] == (str(shim),)
    assert starts_with(preload, engine).returncode == 0
    # Ours alone would have kept it from starting: that is what the order is for.
    assert starts_with(Preload(preload.entries[1:], True), engine).returncode != 0


def test_libasan_that_the_user_preloads_is_not_added_again(compile_c: Compile, shim: Path) -> None:
    engine = compile_c("engine", PROGRAM, "-fsanitize=address")
    already = "/usr/lib/libasan.so.8"
    assert judge([str(engine)], shim, LD_PRELOAD=already).entries[-1] == str(shim)
    assert all(
        not entry.startswith("libasan.so.8")
        for entry in judge([str(engine)], shim, LD_PRELOAD=already).entries
    )


def test_a_shim_built_with_asan_does_not_keep_a_program_from_starting(compile_c: Compile) -> None:
    engine = compile_c("engine", PROGRAM)
    path = compile_c("libshim.so", "int x;", "-shared", "-fPIC", "-fsanitize=address")
    shim = find_shim({"NUMAMIRROR_SHIM": str(path)})
    if not shim.before:
        pytest.skip("this compiler links the sanitizer's runtime statically")
    target = find_target([str(engine)], os.environ)
    preload = judge_preload(target, shim, this_caller(), {})
    assert starts_with(preload, engine).returncode == 0
    assert starts_with(Preload(preload.entries[1:], True), engine).returncode != 0


def test_a_shim_that_needs_a_newer_libc_is_not_preloaded_and_the_version_is_named(
    compile_c: Compile, tmp_path: Path
) -> None:
    compile_c("engine", PROGRAM)
    versions = tmp_path / "versions.map"
    library = "int newer(void) { return 1; }"
    flags = ("-shared", "-fPIC", f"-Wl,--version-script={versions}", "-Wl,-soname,libold.so")
    versions.write_text("OLD_2 { newer; };")
    compile_c("libold.so", library, *flags)
    shim = compile_c(
        "libshim.so",
        "int newer(void); int use(void) { return newer(); }",
        *("-shared", "-fPIC", f"-L{tmp_path}", "-lold", f"-Wl,-rpath,{tmp_path}"),
    )
    assert judge([str(tmp_path / "engine")], shim).reaches_program
    versions.write_text("OLD_1 { newer; };")
    compile_c("libold.so", library, *flags)
    preload = judge([str(tmp_path / "engine")], shim)
    assert preload.entries == ()
    assert preload.notice is not None and "OLD_2" in preload.notice.why
    assert starts_with(Preload((str(shim),), True), tmp_path / "engine").returncode != 0
    (tmp_path / "libold.so").unlink()
    preload = judge([str(tmp_path / "engine")], shim)
    assert preload.entries == ()
    assert preload.notice is not None and "libold.so" in preload.notice.why


@pytest.mark.parametrize(
    ("content", "word"),
    [(b"", "no shared library"), (b"\x7fELFgarbage", "no shared library"), (None, "No such file")],
)
def test_a_missing_or_foreign_shim_is_no_path_but_a_reason(
    tmp_path: Path, content: bytes | None, word: str
) -> None:
    path = tmp_path / "libnumamirror.so"
    if content is not None:
        path.write_bytes(content)
    shim = find_shim({"NUMAMIRROR_SHIM": str(path)})
    assert shim.path is None
    assert shim.problem is not None
    assert str(path) in shim.problem.what and word in shim.problem.why


def test_a_shim_built_for_musl_is_refused(compile_c: Compile) -> None:
    path = compile_c("libshim.so", "int x;", "-shared", "-fPIC", "-nostdlib",
                     "-Wl,-soname,libc.musl-x86_64.so.1")  # fmt: skip
    shim = find_shim({"NUMAMIRROR_SHIM": str(path)})
    assert shim.problem is not None and "musl" in shim.problem.why


def marked(shim: Path, path: Path, page_bytes: int) -> Path:
    """A copy of the shim that says its status page to be of so many bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(shim.read_bytes() + MARK + struct.pack("=II", VERSION, page_bytes))
    return path


def test_a_shim_whose_status_page_cannot_be_read_is_refused(shim: Path, tmp_path: Path) -> None:
    ours = ctypes.sizeof(StatusLayout)
    path = marked(shim, tmp_path / "ours/libnumamirror.so", ours)
    assert find_shim({"NUMAMIRROR_SHIM": str(path)}).path == path
    path = marked(shim, tmp_path / "stale/libnumamirror.so", ours - 8)
    found = find_shim({"NUMAMIRROR_SHIM": str(path)})
    assert found.path is None and found.problem is not None
    assert found.problem.why.startswith("it was built from other sources, and its status page")


def test_a_stale_build_of_a_source_tree_does_not_win(
    shim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numamirror_cli, "__file__", str(tmp_path / "numamirror_cli/__init__.py"))
    ours = ctypes.sizeof(StatusLayout)
    fresh = marked(shim, tmp_path / "build/fresh/libnumamirror.so", ours)
    stale = marked(shim, tmp_path / "build/stale/libnumamirror.so", ours + 8)
    os.utime(fresh, (1, 1))
    assert find_shim({}).path == fresh
    fresh.unlink()
    problem = find_shim({}).problem
    assert problem is not None and str(stale) in problem.what


def test_the_shim_that_is_built_here_says_which_status_page_it_writes() -> None:
    shim = find_shim(os.environ).path
    header = REPOSITORY / "native/include/numamirror_status.h"
    if shim is None or shim.stat().st_mtime < header.stat().st_mtime:
        pytest.skip("no shim is built that is newer than the header of its status page")
    assert layout_in(shim) == (VERSION, ctypes.sizeof(StatusLayout))


def test_a_shim_under_a_path_that_ld_preload_cannot_spell_is_refused(shim: Path) -> None:
    odd = shim.parent / "my libs" / "libnumamirror.so"
    odd.parent.mkdir()
    odd.write_bytes(shim.read_bytes())
    found = find_shim({"NUMAMIRROR_SHIM": str(odd)})
    assert found.problem is not None and "spaces" in found.problem.why


@pytest.mark.parametrize(
    ("standing", "result"),
    [
        (None, "a.so:/b.so"),
        ("", "a.so:/b.so"),
        ("/x/libjemalloc.so", "/x/libjemalloc.so:a.so:/b.so"),
        ("/x.so /y.so", "/x.so /y.so:a.so:/b.so"),
        ("/b.so", "/b.so:a.so"),
    ],
)
def test_the_preloads_of_the_user_stay_and_come_first(standing: str | None, result: str) -> None:
    environ = {} if standing is None else {"LD_PRELOAD": standing}
    assert extended_preload(environ, ("a.so", "/b.so")) == result


def _needs_suid_mount(path: Path) -> None:
    if os.statvfs(path).f_flag & os.ST_NOSUID:
        pytest.skip(f"{path.parent} is mounted nosuid")
