"""What is said of an engine's seams, against what a preload really sees of it when it runs."""

from __future__ import annotations

import os
import platform
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from numamirror_cli.engine.engines import (
    HIDDEN_IN_LIBRARY,
    IN_PROGRAM,
    IN_PROGRAM_NAMED,
    IN_PROGRAM_STRIPPED,
    LINKED,
    ONE_LIBRARY,
    VARIANTS,
    Engine,
    find_engines,
)
from numamirror_cli.engine.followed import follow_command, follow_library
from numamirror_cli.engine.reach import (
    DENSE_ONLY,
    FULL,
    POLICY_ONLY,
    Reach,
    reach_of_engine,
    worst,
)
from tests.unit.engine.stand_in import (
    CPU_SENTENCE,
    SHARED,
    VERSION,
    Build,
    ik_llama,
    mainline,
    row_seams,
    seams,
    seen_by_preload,
    source,
)

Compile = Callable[..., Path]


@pytest.fixture
def build(compile_c: Compile) -> Build:
    return Build(compile_c)


@pytest.fixture(autouse=True)
def a_shim_that_cannot_be_asked(shim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted here is meant; the shim has a say in tests/engines/test_engines_agree.py."""
    monkeypatch.setenv("NUMAMIRROR_SHIM", str(shim))


def engine_of(program: Path) -> Engine:
    (engine,) = find_engines(follow_command([str(program)], os.environ).files)
    return engine


def engine_in(library: Path) -> Engine:
    (engine,) = find_engines(follow_library(library, {}).files)
    return engine


def open_seams(engine: Engine) -> set[str]:
    return {s.name for s in engine.seams.found} - {s.name for s in engine.seams.closed}


def test_all_in_one_library_is_full_and_a_preload_sees_every_seam(
    build: Build, compile_c: Compile
) -> None:
    program = build.program(build.one_library())
    engine = engine_of(program)
    assert engine.shape == ONE_LIBRARY
    assert reach_of_engine(engine).level == FULL
    assert open_seams(engine) == seen_by_preload(compile_c, program, seams(mainline()))


def test_linked_shared_libraries_are_full(build: Build, compile_c: Compile) -> None:
    program = build.program(build.shared_libraries())
    engine = engine_of(program)
    assert (engine.name, engine.shape) == ("llama.cpp", LINKED)
    assert reach_of_engine(engine).level == FULL
    assert {path.name for path in engine.backends} == {"libggml-cpu.so"}
    seen = seen_by_preload(compile_c, program, seams(mainline()))
    # The stand-in's own entry is called `drive` in each library; the program calls libllama's.
    assert seen and seen <= open_seams(engine)


def test_cpu_variants_beside_the_library_are_found_and_all_of_them_count(build: Build) -> None:
    library = build.shared_libraries(link_backend=False)
    engine = engine_in(library)
    assert (engine.name, engine.shape) == ("llama.cpp", VARIANTS)
    assert {path.name for path in engine.backends} == {"libggml-cpu-a.so", "libggml-cpu-b.so"}
    assert reach_of_engine(engine).level == FULL


def test_the_least_able_of_several_variants_decides(build: Build, compile_c: Compile) -> None:
    library = build.shared_libraries(link_backend=False)
    (library.parent / "libggml-cpu-b.so").unlink()
    names = [n for n in mainline() if n != "ggml_cpu_extra_compute_forward"]
    compile_c("libggml-cpu-b.so", source(names, names), *SHARED, "-Wl,-Bsymbolic")
    assert reach_of_engine(engine_in(library)).level == POLICY_ONLY


def test_bsymbolic_is_policy_only_and_a_preload_sees_nothing(
    build: Build, compile_c: Compile
) -> None:
    program = build.program(build.one_library("-Wl,-Bsymbolic"))
    engine = engine_of(program)
    reach = reach_of_engine(engine)
    assert reach.level == POLICY_ONLY and "-Bsymbolic" in reach.why
    assert open_seams(engine) == seen_by_preload(compile_c, program, seams(mainline())) == set()


def test_protected_kernels_are_dense_only_and_a_preload_sees_the_rest(
    build: Build, compile_c: Compile
) -> None:
    protected = '__attribute__((visibility("protected")))'
    program = build.program(build.one_library(attribute=protected))
    engine = engine_of(program)
    reach = reach_of_engine(engine)
    assert reach.level == DENSE_ONLY and "experts" in reach.why
    seen = seen_by_preload(compile_c, program, seams(mainline()))
    assert open_seams(engine) == seen
    assert seen == seams(mainline()) - row_seams()


def test_an_engine_without_functions_of_rows_is_dense_only(build: Build) -> None:
    names = set(mainline()) - row_seams()
    assert reach_of_engine(engine_in(build.one_library(names=names))).level == DENSE_ONLY


def test_a_missing_function_is_named(build: Build) -> None:
    names = [n for n in mainline() if n != "ggml_cpu_extra_compute_forward"]
    reach = reach_of_engine(engine_in(build.one_library(names=names)))
    assert reach.level == POLICY_ONLY
    assert "ggml_cpu_extra_compute_forward" in reach.why


def test_ik_llama_needs_its_own_functions_and_not_those_of_others(build: Build) -> None:
    engine = engine_in(build.one_library(names=ik_llama()))
    assert engine.name == "ik_llama.cpp"
    assert reach_of_engine(engine).level == FULL
    lacking = [n for n in ik_llama() if n != "iqk_mul_mat_moe"]
    reach = reach_of_engine(engine_in(build.one_library(names=lacking, name="libother.so")))
    assert reach.level == POLICY_ONLY and "iqk_mul_mat_moe" in reach.why


def test_hidden_symbols_are_found_by_what_the_library_holds(build: Build) -> None:
    library = build.one_library("-fvisibility=hidden", "-s")
    engine = engine_in(library)
    assert engine.shape == HIDDEN_IN_LIBRARY
    assert reach_of_engine(engine).level == POLICY_ONLY


@pytest.mark.parametrize(
    ("flags", "shape"),
    [
        (("-static", "-s"), IN_PROGRAM_STRIPPED),
        (("-static-pie", "-fPIE", "-s"), IN_PROGRAM_STRIPPED),
        (("-s",), IN_PROGRAM_STRIPPED),
        (("-rdynamic", "-s"), IN_PROGRAM),
    ],
)
def test_an_engine_inside_a_program_that_lost_names_is_policy_only(
    build: Build, flags: tuple[str, ...], shape: str
) -> None:
    engine = engine_of(build.inside_program("-O1", *flags))
    assert engine.shape == shape
    reach = reach_of_engine(engine)
    assert reach.level == POLICY_ONLY and "BUILD_SHARED_LIBS" in reach.remedy


@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls are led to the shim on x86-64")
@pytest.mark.parametrize("flags", [(), ("-no-pie", "-fno-pie"), ("-rdynamic",)])
def test_an_engine_inside_a_program_that_kept_its_names_is_full(
    build: Build, flags: tuple[str, ...]
) -> None:
    engine = engine_of(build.inside_program(*flags))
    assert engine.shape == IN_PROGRAM_NAMED
    reach = reach_of_engine(engine)
    assert reach.level == FULL and "symbol table" in reach.why
    assert {s.name for s in engine.seams.found} == seams(mainline())


def test_an_engine_whose_functions_were_compiled_into_their_callers_is_policy_only(
    build: Build,
) -> None:
    reach = reach_of_engine(engine_of(build.inside_program("-O1")))
    assert reach.level == POLICY_ONLY and "were compiled in when it was built" in reach.why


@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls are led to the shim on x86-64")
@pytest.mark.parametrize(("beside", "level"), [((), POLICY_ONLY), (("llama_decode",), FULL)])
def test_a_worker_with_its_rpc_server_inside_is_policy_only(
    build: Build, beside: tuple[str, ...], level: str
) -> None:
    """Not so a server that loads models itself and could be a worker too."""
    reach = reach_of_engine(engine_of(build.inside_program(names=(*mainline(), *beside))))
    assert reach.level == level
    assert ("RPC server" in reach.why) == (level == POLICY_ONLY)


@pytest.mark.parametrize(
    ("file", "stripped_of", "why"),
    [("<stdin>", "--strip-debug", "LTO"), ("ggml-backend.cpp", "--discard-all", "strip -x")],
)
def test_why_the_calls_inside_a_program_cannot_be_led_to_the_shim_is_said(
    build: Build, file: str, stripped_of: str, why: str
) -> None:
    program = build.inside_program(drive="static", file=file)
    subprocess.run(["strip", stripped_of, str(program)], check=True)
    reach = reach_of_engine(engine_of(program))
    assert reach.level == POLICY_ONLY and why in reach.why
    assert "BUILD_SHARED_LIBS" in reach.remedy


@pytest.mark.parametrize("flags", [(), ("-rdynamic",)])
def test_a_preload_indeed_sees_nothing_of_an_engine_inside_the_program(
    build: Build, compile_c: Compile, flags: tuple[str, ...]
) -> None:
    program = build.inside_program(*flags)
    assert not seams(mainline()) & seen_by_preload(compile_c, program, seams(mainline()))


def test_two_engines_of_one_program_are_told_apart(build: Build, tmp_path: Path) -> None:
    one = build.one_library()
    apart = tmp_path / "elsewhere"
    apart.mkdir()
    other = build.one_library(names=ik_llama(), name="elsewhere/libother.so")
    engines = find_engines([one, other])
    assert [engine.name for engine in engines] == ["ggml", "ik_llama.cpp"]


def test_the_version_is_read_without_running_anything(build: Build) -> None:
    assert f"ggml {VERSION}" in engine_in(build.one_library()).version


@pytest.mark.parametrize("flags", [(), ("-no-pie", "-fno-pie")])
def test_so_is_that_of_an_engine_inside_a_program(build: Build, flags: tuple[str, ...]) -> None:
    program = build.inside_program("-O1", *flags)
    assert f"ggml {VERSION}" in engine_of(program).version


def test_a_library_with_links_for_its_versions_is_one_library(build: Build) -> None:
    one = build.one_library()
    link = one.parent / "libone.so.1"
    link.symlink_to(one)
    (engine,) = find_engines([link, one])
    assert engine.backends == engine.libraries == (link,)


def test_an_engine_is_not_given_the_version_of_another(build: Build) -> None:
    one = build.one_library()
    (one.parent / "elsewhere").mkdir()
    names = "\n".join(f"void {name}(void) {{ }}" for name in ik_llama())
    other = build.compile_c("elsewhere/libother.so", names, *SHARED)
    assert [engine.version for engine in find_engines([one, other])] == [f"ggml {VERSION}", ""]


def test_a_build_that_can_mirror_by_itself_is_known_by_its_help(compile_c: Compile) -> None:
    help_text = "- distribute: spread\\n- mirror: one copy of the weights per node\\n"
    text = source(mainline(), mainline()) + f'\nvoid usage(void) {{ puts("{help_text}"); }}'
    assert engine_in(compile_c("libm.so", text, *SHARED)).own_mirror
    plain = source(mainline(), mainline())
    assert not engine_in(compile_c("libp.so", plain, *SHARED)).own_mirror


def test_a_program_without_ggml_has_no_engine(compile_c: Compile) -> None:
    program = compile_c("plain", "int main(void) { return 0; }")
    assert find_engines(follow_command([str(program)], os.environ).files) == ()


def test_a_broken_library_is_passed_over(build: Build, tmp_path: Path) -> None:
    whole = build.one_library().read_bytes()
    for length in (0, 3, 20, 64, 700, len(whole) // 2, len(whole) - 100):
        broken = tmp_path / f"broken{length}.so"
        broken.write_bytes(whole[:length])
        find_engines([broken])


def test_a_scrambled_library_is_passed_over(build: Build, tmp_path: Path) -> None:
    whole = build.one_library().read_bytes()
    chance = random.Random(27986)
    for number in range(150):
        scrambled = bytearray(whole)
        # The headers and tables, where a byte decides how far is read; and anywhere.
        for _ in range(8):
            span = 1024 if number % 2 else len(whole)
            scrambled[chance.randrange(4, span)] = chance.randrange(256)
        for _ in range(4):
            scrambled[-chance.randrange(1, 2048)] = chance.choice((0, 0x7F, 0xFF))
        path = tmp_path / f"scrambled{number}.so"
        path.write_bytes(scrambled)
        for engine in find_engines(follow_library(path, {}).files):
            reach_of_engine(engine)


def test_of_several_engines_the_least_able_decides() -> None:
    levels = [Reach(FULL, ""), Reach(POLICY_ONLY, "p"), Reach(DENSE_ONLY, "")]
    assert worst(levels).why == "p"


def test_the_sentence_by_which_cpu_code_is_known_is_the_stand_ins_too(build: Build) -> None:
    assert CPU_SENTENCE.encode() in build.one_library().read_bytes()
