"""`numamirror check`: what a person or a program reads about a program, before it is started."""

from __future__ import annotations

import io
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from numamirror_cli.cli import cli
from numamirror_cli.engine.examination import examine_command
from numamirror_cli.engine.privileges import this_caller
from numamirror_cli.engine.shim import find_shim
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.report import check as report
from tests.unit.engine.conftest import compile_c, shim  # noqa: F401
from tests.unit.engine.stand_in import SHARED, Build, own_mirror
from tests.unit.launch.listener import kthreadd_is_seen

Compile = Callable[..., Path]
Script = Callable[..., Path]

SCHEMA = Path(report.__file__).parent / "schema/check-1.json"
WAITING = "extern void drive(void); extern int puts(const char *); extern int pause(void);\n"
WAITING += 'extern int fflush(void *); int main(void) { drive(); puts("ready"); fflush(0);'
WAITING += " return pause(); }"


@pytest.fixture
def build(compile_c: Compile) -> Build:  # noqa: F811
    return Build(compile_c)


@pytest.fixture(autouse=True)
def a_shim(shim: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """One that can be preloaded, whatever is built here."""
    monkeypatch.setenv("NUMAMIRROR_SHIM", str(shim))


def check(*words: object) -> Result:
    """As a user runs it on an 80-column terminal; errors of ours are raised."""
    environment = {"COLUMNS": "80", "NO_COLOR": "1"}
    result = CliRunner().invoke(cli, ["check", *map(str, words)], env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def verdict(result: Result) -> str:
    """The last paragraph, in one line."""
    return " ".join(result.stdout.rstrip().rpartition("\n\n")[2].split())


def document(*words: object) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(check("--json", *words).stdout)
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(result)
    return result


# ---- programs ----


def test_a_program_with_an_engine_is_full_and_exits_0(build: Build) -> None:
    result = check(build.program(build.shared_libraries()))
    assert result.exit_code == 0
    assert verdict(result).startswith("full: all of its")
    for line in ("Engine       llama.cpp", "Shape        linked shared libraries", "honoured"):
        assert line in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_program_without_an_engine_is_policy_only_and_exits_1(compile_c: Compile) -> None:  # noqa: F811
    result = check(compile_c("plain", "int main(void) { return 0; }"))
    assert result.exit_code == 1
    assert verdict(result).startswith("policy only: there is no ggml in it")


def test_a_static_engine_is_policy_only_with_a_remedy(build: Build) -> None:
    result = check(build.inside_program("-static"))
    assert result.exit_code == 1
    assert "policy only: it is linked statically" in verdict(result)
    assert "use a dynamically linked build" in verdict(result)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls are led to the shim on x86-64")
def test_an_engine_inside_its_program_is_full_and_the_screen_says_by_what(build: Build) -> None:
    result = check(build.inside_program())
    assert result.exit_code == 0
    assert verdict(result).startswith(
        "full: its calls pass no loader; the shim leads them to itself"
    )
    assert "all called inside the program" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_protected_kernels_are_dense_only_and_exit_0(build: Build) -> None:
    library = build.one_library(attribute='__attribute__((visibility("protected")))')
    result = check(build.program(library))
    assert result.exit_code == 0
    assert verdict(result).startswith("dense only: experts are read past the shim")
    assert "not called through the loader" in result.stdout


def test_a_musl_program_is_policy_only(compile_c: Compile) -> None:  # noqa: F811
    found = document(compile_c("engine", "int main(void) { return 0; }", compiler="musl-gcc"))
    assert found["libc"] == "musl"
    assert "musl" in found["verdict"]["why"]
    assert found["preload"]["honoured"] is False


@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        (["no-such-engine"], 2, "no-such-engine: program not found"),
        (["/no/such/file"], 2, "/no/such/file: program not found"),
        (["/etc/passwd"], 2, "/etc/passwd: not executable"),
        (["/etc"], 2, "/etc: is a directory, not a program"),
        (["4194304"], 2, "no process 4194304"),
    ],
)
def test_what_is_not_there_exits_2_and_is_named(
    words: list[str], exit_code: int, message: str
) -> None:
    with pytest.raises(NumaMirrorError) as caught:
        check(*words)
    assert (caught.value.exit_code, caught.value.message) == (exit_code, message)


def test_json_tells_the_libraries_the_seams_and_the_verdict(build: Build) -> None:
    library = build.shared_libraries()
    found = document(build.program(library))
    (engine,) = found["engines"]
    assert engine["name"] == "llama.cpp" and engine["family"] == "mainline"
    assert [Path(path).name for path in engine["backends"]] == ["libggml-cpu.so"]
    assert str(library) in engine["libraries"]
    assert "ggml_graph_compute" in engine["seams"]["found"]
    assert engine["seams"]["not_interposable"] == engine["seams"]["required_missing"] == []
    assert found["verdict"] == engine["verdict"]
    assert found["preload"] == {"honoured": True, "why_not": ""}


def test_a_library_that_is_nowhere_is_named(build: Build) -> None:
    library = build.shared_libraries()
    program = build.program(library)
    (library.parent / "libggml-cpu.so").unlink()
    assert document(program)["missing_libraries"] == ["libggml-cpu.so"]


# ---- what leads to a program ----


def test_a_start_script_is_followed_to_the_engine(build: Build, script: Script) -> None:
    program = build.program(build.one_library())
    start = script("start", '#!/bin/sh\nHERE=$(dirname "$0")\nexec "$HERE/engine" "$@"\n')
    found = document(start, "-m", "model")
    assert found["verdict"]["level"] == "full"
    assert found["starts"] == [str(program)]


def test_a_script_that_starts_a_static_engine_is_policy_only(
    build: Build,
    script: Script,
) -> None:
    build.inside_program("-static")
    start = script("start", '#!/bin/sh\nexec "$(dirname "$0")/engine"\n')
    assert document(start)["verdict"]["level"] == "policy only"


@pytest.mark.parametrize(
    "wrapper", ["taskset -c 0", "nice -n 5", "timeout -s KILL 60", "env A=1", "nohup", "setsid -w"]
)
def test_a_wrapper_is_followed_to_the_engine(build: Build, wrapper: str) -> None:
    if not shutil.which(wrapper.split()[0]):
        pytest.skip(f"{wrapper.split()[0]} is not installed")
    program = build.program(build.one_library())
    found = document(*wrapper.split(), program, "--port", "1")
    assert found["verdict"]["level"] == "full"
    assert found["chain"][-1] == str(program)


def test_a_command_in_a_shells_string_is_followed_to_the_engine(build: Build) -> None:
    program = build.program(build.one_library())
    found = document("sh", "-c", f"exec {program} --port 1")
    assert found["verdict"]["level"] == "full"
    assert found["chain"][-1] == str(program)


def test_a_shells_string_that_was_not_looked_into_is_said(build: Build) -> None:
    result = check("sh", "-c", f"cd / && {build.program(build.one_library())}")
    assert result.exit_code == 1
    assert verdict(result).startswith(
        "unknown: no ggml was found; the string that sh runs (-c) was not looked into"
    )


def test_env_i_keeps_the_shim_out(build: Build) -> None:
    found = document("env", "-i", build.program(build.one_library()))
    assert found["verdict"]["level"] == "policy only"
    assert "env -i" in found["verdict"]["why"]


def test_a_bundled_loader_is_followed_to_the_engine(build: Build, tmp_path: Path) -> None:
    library = build.one_library()
    program = build.compile_c(
        "engine", "extern void drive(void); int main(void) { drive(); return 0; }",
        f"-L{library.parent}", f"-l:{library.name}",
    )  # fmt: skip
    loader = tmp_path / "ld.so"
    shutil.copy(interpreter_of(program), loader)
    found = document(loader, "--library-path", library.parent, program)
    assert found["verdict"]["level"] == "full"
    assert found["chain"] == [str(loader), str(program)]


def interpreter_of(program: Path) -> str:
    shown = subprocess.run(["readelf", "-l", program], capture_output=True, text=True, check=True)
    return shown.stdout.partition("program interpreter: ")[2].partition("]")[0]


# ---- Python ----


def test_a_python_command_is_followed_to_the_package_it_imports(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site/binding"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    shutil.copy(build.one_library(), package / "core.abi3.so")
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    for words in (["-c", "import binding"], ["-m", "binding"]):
        found = document(sys.executable, *words)
        assert found["verdict"]["level"] == "full"
        assert found["engines"][0]["backends"] == [str(package / "core.abi3.so")]


def test_a_python_command_that_shows_no_engine_is_unknown_and_exits_1() -> None:
    result = check(sys.executable, "-c", "import json")
    assert result.exit_code == 1
    assert verdict(result).startswith("unknown: no ggml was found")
    assert "numamirror check PID" in verdict(result)


def test_a_directory_of_libraries_in_the_arguments_is_looked_at(build: Build) -> None:
    directory = build.shared_libraries(link_backend=False).parent
    found = document(sys.executable, "-c", "0", "--engine-dir", directory)
    assert found["engines"][0]["shape"] == "CPU variants, loaded at run time"
    assert found["verdict"]["level"] == "full"


def test_libraries_that_a_program_brings_with_it_are_looked_at(
    build: Build,
    compile_c: Compile,  # noqa: F811
    tmp_path: Path,
) -> None:
    (tmp_path / "bin").mkdir()
    program = compile_c("bin/server", "int main(void) { return 0; }")
    home = tmp_path / "lib/server"
    home.mkdir(parents=True)
    library = build.shared_libraries(link_backend=False)
    for file in (*library.parent.glob("libggml*.so"), library):
        file.rename(home / file.name)
    found = document(program, "serve")
    assert found["engines"][0]["shape"] == "CPU variants, loaded at run time"
    assert found["verdict"]["level"] == "full"


def test_a_program_that_loads_libraries_by_itself_is_unknown(compile_c: Compile) -> None:  # noqa: F811
    text = "#include <dlfcn.h>\nint main(void) { return dlopen(0, RTLD_NOW) == 0; }"
    found = document(compile_c("loads", text, "-ldl"))
    assert found["verdict"]["level"] == "unknown"
    assert "dlopen" in found["verdict"]["why"]


# ---- libraries ----


def test_a_library_is_judged_by_itself(build: Build) -> None:
    result = check(build.one_library())
    assert result.exit_code == 0
    assert "up to the program that loads this library" in result.stdout
    assert check(build.one_library("-Wl,-Bsymbolic", name="libb.so")).exit_code == 1


def test_a_library_for_another_machine_is_policy_only(build: Build) -> None:
    library = build.one_library()
    image = bytearray(library.read_bytes())
    image[18] = 243  # EM_RISCV
    library.write_bytes(image)
    assert "another machine (RISCV" in verdict(check(library))


# ---- engines that mirror by themselves ----


def test_an_engine_told_to_mirror_by_itself_is_left_to_it(build: Build, compile_c: Compile) -> None:  # noqa: F811
    text = own_mirror("GGML_NUMA_MIRROR_HOME")
    program = build.program(compile_c("libown.so", text, *SHARED))
    assert "its home node: GGML_NUMA_MIRROR_HOME" in " ".join(check(program).stdout.split())
    asked = document(program, "--numa", "mirror")
    assert asked["engines"][0]["mirrors_itself"] is True
    assert asked["engines"][0]["own_home_variable"] == "GGML_NUMA_MIRROR_HOME"
    assert asked["verdict"]["level"] == "policy only"
    assert "no second set" in asked["verdict"]["why"]
    assert document(program, "--numa", "distribute")["verdict"]["level"] == "full"


def test_numa_mirror_means_nothing_to_an_engine_without_it(build: Build) -> None:
    program = build.program(build.one_library())
    assert document(program, "--numa", "mirror")["verdict"]["level"] == "full"


# ---- running processes ----


@pytest.fixture
def start() -> Iterator[Callable[..., int]]:
    """start(*command, **environ) -> pid, once the process has said "ready"."""
    started: list[subprocess.Popen[str]] = []

    def run(*command: object, **environ: str) -> int:
        process = subprocess.Popen(
            list(map(str, command)),
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environ},
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process.pid

    yield run
    for process in started:
        process.send_signal(signal.SIGKILL)
        process.wait()


def waiting(build: Build, library: Path, name: str = "waiting") -> Path:
    link = (f"-L{library.parent}", f"-l:{library.name}", f"-Wl,-rpath,{library.parent}")
    return build.compile_c(name, WAITING, *link)


def test_a_running_process_is_judged_by_what_it_has_mapped(
    build: Build, start: Callable[..., int]
) -> None:
    program = waiting(build, build.one_library())
    found = document(start(program))
    assert found["program"] == str(program)
    assert [Path(path).name for path in found["engines"][0]["backends"]] == ["libone.so"]
    assert found["verdict"]["level"] == "full"
    assert found["seccomp"] == own_seccomp()


def own_seccomp() -> int | None:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Seccomp:"):
            return int(line.split()[1])
    return None


def test_a_running_process_whose_file_was_replaced_is_still_judged(
    build: Build, start: Callable[..., int]
) -> None:
    library = build.one_library()
    pid = start(waiting(build, library))
    library.rename(library.with_name("moved.so"))
    library.write_text("no library")
    assert document(pid)["engines"] != []


def test_a_process_that_loads_its_engine_later_is_unknown(start: Callable[..., int]) -> None:
    code = "import sys, time; print('ready', flush=True); time.sleep(600)"
    found = document(start(sys.executable, "-S", "-c", code))
    assert found["verdict"]["level"] == "unknown"


def test_a_process_under_a_seccomp_filter_is_told_so(start: Callable[..., int]) -> None:
    code = (
        "from tests.unit.memory.under_seccomp import deny\n"
        "import errno, time\n"
        "deny(['mbind'], errno.EPERM)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)"
    )
    try:
        pid = start(sys.executable, "-c", code, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    except AssertionError:
        pytest.skip("this kernel installs no seccomp filter")
    result = check(pid)
    assert "a filter is on" in result.stdout


def test_a_process_that_has_ended_meanwhile_is_no_process(start: Callable[..., int]) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    time.sleep(0.01)
    with pytest.raises(NumaMirrorError, match=f"no process {gone.pid}"):
        check(gone.pid)


def test_what_has_ended_or_is_a_kernel_thread_runs_no_program() -> None:
    zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    try:
        for pid in (zombie.pid, *([2] if kthreadd_is_seen() else [])):
            said = rf"process {pid} runs no program: it has ended, or is a kernel thread"
            with pytest.raises(NumaMirrorError, match=said) as raised:
                check(pid)
            assert raised.value.exit_code == 2
    finally:
        zombie.wait()


def test_that_a_process_has_no_filter_is_said_of_now_and_of_a_command_altogether() -> None:
    """A process may set one yet; a command that is not started gets ours."""
    examined = examine_command(["true"], find_shim(os.environ), this_caller(), os.environ)
    for refused, said in ((None, "none so far"), ((), "none")):
        shown = replace(examined, seccomp=0, refused=refused, deadly=refused)
        console = Console(file=io.StringIO(), width=80)
        with console.capture() as capture:
            console.print(report.render_check(shown))
        lines = [line.split(None, 1) for line in capture.get().splitlines()]
        assert ["Seccomp", said] in [[*map(str.strip, line)] for line in lines]
