"""Runs drivers on real engines, plain and under `numamirror run`, once per combination."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import build_llama
import fetch
import gguf
import inside_names
import moe
import whisper_model
from driver import GENERATING_SINCE

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
# An engine takes seconds here; a machine that does something else takes its time.
TIMEOUT_SECONDS = 600


MODELS = ("gemma", *(f"moe-{name}" for name in moe.TYPES))

# One for each way that GEMM takes: sgemm, repacked buffers, vec_dot.
THREE_WAYS = ("moe-Q8_0", "moe-Q4_0", "moe-IQ2_XXS")


@dataclass(frozen=True)
class Engine:
    """driver: script beside this file; directory: fetches the engine's libraries, if it must, for
    the driver's --engine-dir or, of a Python package, for PYTHONPATH; modules: must be installed;
    models: what it is tried on; program: what the driver starts, if `check` cannot know it;
    inside: the program in that directory that has all of ggml in it."""

    name: str
    driver: str
    directory: Callable[[], Path] | None = None
    models: tuple[str, ...] = MODELS
    modules: tuple[str, ...] = ()
    is_python_package: bool = False
    program: tuple[str, ...] = ()
    inside: str = ""

    def command(self, model: str, *options: str) -> list[str]:
        """Raises fetch.Unavailable when the engine or the model cannot be had."""
        return self.started([sys.executable, str(HERE / self.driver)], model, options)

    def checked(self, model: str) -> list[str]:
        """The command of which `check` can say what will be loaded."""
        if self.inside and self.directory is not None:
            return [str(self.directory() / self.inside), "--model", str(model_path(model))]
        if not self.program:
            return self.command(model)
        return self.started([sys.executable, *self.program], model)

    def started(self, driver: list[str], model: str, options: Sequence[str] = ()) -> list[str]:
        for module in self.modules:
            fetch.installed(module)
        where = str(self.directory()) if self.directory else ""
        if where and self.is_python_package:
            driver = ["env", f"PYTHONPATH={where}", *driver]
        elif where:
            driver += ["--engine-dir", where]
        return [*driver, "--model", str(model_path(model)), *options]


XLLAMACPP = Engine("xllamacpp", "drive_xllamacpp.py", modules=("xllamacpp",))
XLLAMACPP_2026_6, XLLAMACPP_0_2 = (
    Engine(name, "drive_xllamacpp.py", directory, THREE_WAYS, is_python_package=True)
    for name, directory in (
        ("xllamacpp-2026.6", fetch.xllamacpp_2026_6),
        ("xllamacpp-0.2", fetch.xllamacpp_0_2),
    )
)
NODE_LLAMA_CPP = Engine("node-llama-cpp", "drive_llama_ctypes.py", fetch.node_llama_cpp)
LLAMA_CPP_PYTHON, LLAMA_CPP_SERVER = (
    Engine(
        *(name, driver, build_llama.llama_cpp_python, THREE_WAYS, modules),
        is_python_package=True,
        program=program,
    )
    for name, driver, modules, program in (
        ("llama-cpp-python", "drive_llama_cpp_python.py", ("diskcache", "jinja2"), ()),
        (
            "llama-cpp-python's server",
            "drive_llama_cpp_server.py",
            ("diskcache", "jinja2", "fastapi", "uvicorn", "sse_starlette", "starlette_context"),
            ("-m", "llama_cpp.server"),
        ),
    )
)
LLAMA_SERVER = Engine("llama-server", "drive_llama_server.py", fetch.llama_server)
STATIC = Engine(
    *("static", "drive_llama_server.py", build_llama.static_server, THREE_WAYS),
    inside="llama-server",
)
STRIPPED = Engine(
    *("static, stripped", "drive_llama_server.py", build_llama.stripped_server, ("moe-Q8_0",)),
    inside="llama-server",
)
STATIC_WORKERS = Engine(
    *("static workers", "drive_libllama_rpc.py", build_llama.static_worker, ("moe-Q8_0",)),
    inside="ggml-rpc-server",
)
IK_LLAMA = Engine("ik_llama.cpp", "drive_ik_llama.py", modules=("ik_llama_cpp",))
WHISPER = Engine("whisper.cpp", "drive_whisper.py", None, ("whisper",), ("pywhispercpp",))
LLAMA_RPC = Engine("llama-server over RPC", "drive_llama_rpc.py", fetch.llama_server)
LLAMA_UPLOAD = Engine("llama-server with Vulkan", "drive_llama_upload.py", fetch.llama_server)
TWO_ENGINES = Engine("two engines", "drive_two_engines.py", modules=("xllamacpp", "ik_llama_cpp"))

# Those that load MODELS, or some of them; whisper.cpp has its own.
ENGINES = (
    *(XLLAMACPP, XLLAMACPP_2026_6, XLLAMACPP_0_2, NODE_LLAMA_CPP, LLAMA_SERVER),
    *(LLAMA_CPP_PYTHON, LLAMA_CPP_SERVER, STATIC, IK_LLAMA),
)
ALL = (*ENGINES, STRIPPED, WHISPER, LLAMA_RPC, STATIC_WORKERS, LLAMA_UPLOAD, TWO_ENGINES)
COMBINATIONS = [(engine, model) for engine in (*ENGINES, WHISPER) for model in engine.models]


@dataclass(frozen=True)
class Run:
    """line: what the driver printed; mirror: the object of `run --json`; poison: its report;
    generating_since: seconds of CLOCK_MONOTONIC, after the engine's warm-up."""

    line: dict[str, Any]
    mirror: dict[str, Any]
    poison: dict[str, Any]
    generating_since: float


def model_path(name: str) -> Path:
    """gemma, whisper, or KIND-TYPE for a generated small model, tiny-KIND-TYPE for a tiny one.
    Raises fetch.Unavailable."""
    if name == "gemma":
        return fetch.gemma()
    if name == "whisper":
        return whisper_model.model()
    *size, kind, type_name = name.split("-")
    return moe.model(size[0] if size else "small", kind, type_name)


@functools.cache
def run_plain(
    engine: Engine, model: str, *options: str, environment: tuple[tuple[str, str], ...] = ()
) -> dict[str, Any]:
    """The driver's line without us in the way."""
    return driver_line(finished(engine.command(model, *options), dict(environment)))


@functools.cache
def run_mirrored(
    engine: Engine,
    model: str,
    mirror: tuple[str, ...],
    options: tuple[str, ...] = (),
    environment: tuple[tuple[str, str], ...] = (),
    poisoned: bool = False,
) -> Run:
    """The driver under `numamirror run` with the options `mirror`.

    poisoned: the mirrored pages of the primary are unreadable once their replicas stand.
    """
    with tempfile.TemporaryDirectory() as scratch:
        report, poison = Path(scratch) / "run.json", Path(scratch) / "poison.json"
        variables = dict(environment)
        if poisoned:
            settled = str(poison.with_suffix(".settled"))
            poisoning = {"POISON_REPORT": str(poison), "POISON_SETTLED": settled}
            variables = {"LD_PRELOAD": str(poison_library()), **poisoning, **variables}
            options = ("--pause", "0.3", "--until", settled, *options)
        done = finished(
            [*numamirror_run(report, *mirror), *engine.command(model, *options)], variables
        )
        return Run(
            line=driver_line(done),
            mirror=json.loads(report.read_text())["mirror"],
            poison=poison_report(engine, poison) if poisoned else {},
            generating_since=generating_since(done.stderr),
        )


def poison_report(engine: Engine, path: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(path.read_text())
    if engine.inside and engine.directory is not None:
        return inside_names.named(report, engine.directory() / engine.inside)
    return report


def numamirror_run(report: Path, *options: str) -> list[str]:
    """`numamirror run` of this source tree, up to the program's name."""
    command = [sys.executable, "-m", "numamirror_cli", "run", "--report", "none"]
    return [*command, "--json", str(report), *options, "--"]


def finished(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs to the end in the repository's root; what it started ends with it. Fails with the log's
    tail unless it exits 0."""
    # Files: pipes would stay open for as long as a server of a driver that failed.
    with (
        tempfile.TemporaryFile("w+", errors="replace") as out,
        tempfile.TemporaryFile("w+", errors="replace") as log,
    ):
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env=os.environ | environment,
            stdout=out,
            stderr=log,
            start_new_session=True,
        )
        try:
            status: int | str = process.wait(TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            status = f"nothing in {TIMEOUT_SECONDS} seconds"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        log.seek(0)
        done = subprocess.CompletedProcess(command, process.returncode, out.read(), log.read())
    assert status == 0, f"{command} exited {status}:\n{done.stderr[-4000:]}"
    return done


def driver_line(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(done.stdout)
    return line


def generating_since(log: str) -> float:
    _, _, after = log.partition(GENERATING_SINCE)
    return float(after.split()[0])


@functools.cache
def poison_library() -> Path:
    """poison/poison.c as a shared library, compiled once per session."""
    return compiled("poison.c", "poison.so", "-shared", "-fPIC")


@functools.cache
def poison_stand_in() -> Path:
    return compiled("stand_in.c", "stand_in", "-rdynamic")


@functools.cache
def no_iqk_library() -> Path:
    """poison/no_iqk.c: for the front of LD_PRELOAD."""
    return compiled("no_iqk.c", "no_iqk.so", "-shared", "-fPIC")


@functools.cache
def build_directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="numamirror-poison")


def compiled(source: str, target: str, *flags: str) -> Path:
    path = Path(build_directory().name) / target
    strict = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", *flags]
    libraries = ["-ldl", "-lpthread"]
    command = ["cc", *strict, "-o", str(path), str(HERE / "poison" / source), *libraries]
    subprocess.run(command, check=True)
    return path


@functools.cache
def gemm_bytes_in(model: str) -> int:
    """Bytes that GEMM reads by the model file's own account: every matrix, the token embedding
    only where it is the output matrix too."""
    if model == "whisper":
        return whisper_model.gemm_bytes()
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(model_path(model)).tensors}
    if "output.weight" in tensors:
        del tensors["token_embd.weight"]
    return sum(int(t.n_bytes) for t in tensors.values() if len(t.shape) > 1)
