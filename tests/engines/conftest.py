"""Parametrized engines and models; what cannot be had here is skipped, saying why."""

from __future__ import annotations

from collections.abc import Iterator

import fetch
import pytest
import rig
import support

RESULTS = pytest.StashKey[support.Results]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RESULTS] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Books what each test of an engine found, for the tables of support.py."""
    report = yield
    if report.when == "call" and not report.skipped:
        for engine in engines_of(item):
            support.note(item.config.stash[RESULTS], engine, item.name, report.passed)
    return report


def engines_of(item: pytest.Item) -> set[str]:
    """The engine that a test is about: the most particular one that it asks for."""
    values = [v for v in getattr(item, "funcargs", {}).values() if isinstance(v, rig.Engine)]
    names = {engine.name for engine in values}
    return names & {rig.TWO_ENGINES.name} or names


def pytest_sessionfinish(session: pytest.Session) -> None:
    if found := session.config.stash[RESULTS]:
        for engine in rig.ALL:
            if engine.name in found:
                support.note_version(found, engine.name, engine.checked(engine.models[-1]))
        support.keep(found)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test of an engine and a model runs on each engine with each of its models."""
    if {"engine", "model"} <= set(metafunc.fixturenames) and "model" not in named_by_marks(
        metafunc
    ):
        metafunc.parametrize(
            ("engine", "model"),
            rig.COMBINATIONS,
            indirect=True,
            ids=[f"{engine.name}-{model}" for engine, model in rig.COMBINATIONS],
        )
    elif "engine" in metafunc.fixturenames:
        metafunc.parametrize("engine", rig.ENGINES, indirect=True, ids=lambda engine: engine.name)


def named_by_marks(metafunc: pytest.Metafunc) -> set[str]:
    marks = metafunc.definition.iter_markers("parametrize")
    return {name.strip() for mark in marks for name in str(mark.args[0]).split(",")}


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> rig.Engine:
    return available(request.param)


@pytest.fixture
def model(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    try:
        rig.model_path(name)
    except fetch.Unavailable as reason:
        pytest.skip(str(reason))
    return name


def available(engine: rig.Engine) -> rig.Engine:
    try:
        engine.command(engine.models[-1])
    except fetch.Unavailable as reason:
        pytest.skip(str(reason))
    return engine


@pytest.fixture
def xllamacpp() -> rig.Engine:
    return available(rig.XLLAMACPP)


@pytest.fixture
def node_llama_cpp() -> rig.Engine:
    return available(rig.NODE_LLAMA_CPP)


@pytest.fixture
def llama_server() -> rig.Engine:
    return available(rig.LLAMA_SERVER)


@pytest.fixture
def ik_llama() -> rig.Engine:
    return available(rig.IK_LLAMA)


@pytest.fixture
def whisper() -> rig.Engine:
    return available(rig.WHISPER)


@pytest.fixture
def llama_rpc() -> rig.Engine:
    return available(rig.LLAMA_RPC)


@pytest.fixture
def static_workers() -> rig.Engine:
    return available(rig.STATIC_WORKERS)


@pytest.fixture
def llama_upload() -> rig.Engine:
    try:
        fetch.lavapipe()
    except fetch.Unavailable as reason:
        pytest.skip(str(reason))
    return available(rig.LLAMA_UPLOAD)


@pytest.fixture
def static() -> rig.Engine:
    return available(rig.STATIC)


@pytest.fixture
def stripped_server() -> rig.Engine:
    return available(rig.STRIPPED)


@pytest.fixture
def two_engines() -> rig.Engine:
    return available(rig.TWO_ENGINES)
