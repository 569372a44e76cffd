"""Parametrized engines and models; what cannot be had here is skipped, saying why."""

from __future__ import annotations

import fetch
import pytest
import rig


@pytest.fixture(params=rig.ENGINES, ids=lambda engine: engine.name)
def engine(request: pytest.FixtureRequest) -> rig.Engine:
    return available(request.param)


@pytest.fixture(params=rig.MODELS)
def model(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    try:
        rig.model_path(name)
    except fetch.Unavailable as reason:
        pytest.skip(str(reason))
    return name


def available(engine: rig.Engine) -> rig.Engine:
    try:
        if engine.directory:
            engine.directory()
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
