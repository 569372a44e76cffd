"""What `check` says of a real engine before it starts, and what then happens under `run`."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fetch
import gguf
import pytest
from bound_inside import bind, bind_all
from rig import REPOSITORY, Engine, Run, gemm_bytes_in, model_path, run_mirrored, run_plain
from test_engines_mirror import TWO_REPLICAS

MODEL = "moe-F16"
ROWS = ("ggml_vec_dot_", "ggml_compute_forward_mul_mat_id_")


@functools.cache
def check(*words: str, under: tuple[str, ...] = ()) -> dict[str, Any]:
    """The document of `check --json`, and that its exit status goes with its verdict. under: the
    command that starts it."""
    done = subprocess.run(
        [*under, sys.executable, "-m", "numamirror_cli", "check", "--json", "--", *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (found["verdict"]["level"] in ("policy only", "unknown"))
    return found


def said_of(engine: Engine) -> dict[str, Any]:
    return check(*engine.checked(MODEL))


def happened_to(engine: Engine) -> Run:
    return run_mirrored(engine, MODEL, TWO_REPLICAS)


def expert_bytes_in(model: str) -> int:
    tensors = gguf.GGUFReader(model_path(model)).tensors
    return sum(int(tensor.n_bytes) for tensor in tensors if "_exps" in tensor.name)


def mirrored_as_said(level: str, mirror: dict[str, Any] | None) -> bool:
    """Whether what was mirrored is what the verdict promised."""
    mirrored = 0 if mirror is None else mirror["mirrored_bytes"]
    everything = gemm_bytes_in(MODEL)
    if level == "full":
        return bool(mirrored == everything)
    if level == "dense only":
        return bool(mirrored == everything - expert_bytes_in(MODEL))
    return bool(level == "policy only" and mirrored == 0)


# ---- engines as people get them ----


def test_the_verdict_on_an_engine_is_what_then_happens(engine: Engine) -> None:
    said, happened = said_of(engine), happened_to(engine)
    assert mirrored_as_said(said["verdict"]["level"], happened.mirror)
    assert happened.line == run_plain(engine, MODEL)


def test_the_library_that_computes_is_among_those_that_were_named(engine: Engine) -> None:
    (found,) = said_of(engine)["engines"]
    computing = Path(happened_to(engine).mirror["engine"]).resolve()
    assert computing in [Path(path).resolve() for path in found["backends"]]


def test_each_engine_is_seen_in_its_shape_and_version(
    xllamacpp: Engine, node_llama_cpp: Engine, llama_server: Engine
) -> None:
    shapes = {
        xllamacpp: "one shared library",
        node_llama_cpp: "CPU variants, loaded at run time",
        llama_server: "linked shared libraries",
    }
    for engine, shape in shapes.items():
        (found,) = said_of(engine)["engines"]
        assert (found["name"], found["shape"]) == ("llama.cpp", shape)
        assert "ggml 0." in found["version"]


def test_llama_server_itself_is_followed_to_its_libraries(llama_server: Engine) -> None:
    program = fetch.llama_server() / "llama-server"
    found = check(str(program), "-m", "model.gguf")
    assert found["verdict"]["level"] == "full"
    assert found["missing_libraries"] == []


# ---- the same engines, bound inside ----


@pytest.fixture
def bound(node_llama_cpp: Engine, tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    """bound(name, change) -> node-llama-cpp with each of its CPU variants changed by `change`."""
    assert node_llama_cpp.directory is not None
    original = node_llama_cpp.directory()
    directory = tmp_path / "bound"

    def make(name: str, change: Callable[[Path], object]) -> Engine:
        shutil.copytree(original, directory)
        variants = list(directory.glob("libggml-cpu-*.so"))
        assert variants
        for variant in variants:
            change(variant)
        return Engine(name, node_llama_cpp.driver, lambda: directory)

    yield make
    shutil.rmtree(directory, ignore_errors=True)


def test_an_engine_bound_inside_is_policy_only_and_is_not_mirrored(
    bound: Callable[..., Engine], node_llama_cpp: Engine
) -> None:
    engine = bound("symbolic", bind_all)
    said, happened = said_of(engine), happened_to(engine)
    assert said["verdict"]["level"] == "policy only"
    assert mirrored_as_said("policy only", happened.mirror)
    assert happened.line == run_plain(node_llama_cpp, MODEL)


def test_an_engine_whose_kernels_are_bound_inside_is_dense_only(
    bound: Callable[..., Engine], node_llama_cpp: Engine
) -> None:
    engine = bound("rows", lambda library: bind(library, lambda name: name.startswith(ROWS)))
    said, happened = said_of(engine), happened_to(engine)
    assert said["verdict"]["level"] == "dense only"
    assert mirrored_as_said("dense only", happened.mirror)
    assert happened.line == run_plain(node_llama_cpp, MODEL)


def test_a_verdict_that_promises_too_much_would_be_noticed(
    bound: Callable[..., Engine],
) -> None:
    happened = happened_to(bound("negative", bind_all))
    assert not mirrored_as_said("full", happened.mirror)
    assert not mirrored_as_said("dense only", happened.mirror)


# ---- a running engine ----


def test_a_running_engine_is_judged_by_what_it_has_loaded(xllamacpp: Engine) -> None:
    command = xllamacpp.command(MODEL, "--pause", "600")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        found = until_engine(process.pid)
    finally:
        process.kill()
        process.wait()
    assert found["engines"][0]["shape"] == "one shared library"
    assert found["verdict"]["level"] == "full"


def until_engine(pid: int) -> dict[str, Any]:
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        check.cache_clear()
        if (found := check(str(pid)))["engines"]:
            return found
        time.sleep(0.5)
    pytest.fail("the engine was not seen in the process")
