"""What `inspect` says of a real engine that is running."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rig import Engine, model_path

from numamirror_cli.plan.engine_args import parse_engine_args
from numamirror_cli.plan.gguf_header import read_model
from numamirror_cli.plan.kv_cache import kv_cache_bytes

NUMAMIRROR = [sys.executable, "-m", "numamirror_cli"]
ANSWER = Path(__file__).parents[2] / "docs" / "recipes" / "answer.py"
CONTEXT = 512  # that of answer.py
# malloc does not begin buffers at pages.
SLACK = 16 * 4096


def inspected(model: Path) -> Any:
    """`inspect` of an engine that has answered once and stays."""
    run = [*NUMAMIRROR, "run", "--rehearse", "2", "--min-size", "1", "--"]
    answer = [sys.executable, str(ANSWER), "-n", "1", "-t", "2", "-m", str(model), "--stay"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*run, *answer], **pipes) as launcher:
        assert launcher.stdout and launcher.stdout.readline()
        command = [*NUMAMIRROR, "inspect", "--json", str(launcher.pid)]
        return json.loads(subprocess.check_output(command, stderr=subprocess.DEVNULL))


@pytest.mark.parametrize("name", ["gemma", "moe-Q8_0"])
def test_the_kv_cache_is_as_large_as_the_model_makes_it(xllamacpp: Engine, name: str) -> None:
    buffers = {buffer["kind"]: buffer for buffer in inspected(model_path(name))["buffers"]}
    expected = kv_cache_bytes(
        read_model(model_path(name)), parse_engine_args(["engine", "-c", str(CONTEXT)])
    )
    cache, computing = buffers["cache"], buffers["compute"]
    assert sum(cache["bytes"].values()) == pytest.approx(expected, abs=SLACK)
    assert 0 < sum(computing["bytes"].values()) <= computing["mapped_bytes"]
