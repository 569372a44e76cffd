"""`numamirror doctor`: what a person or a program reads, and its exit status."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from numamirror_cli.cli import cli
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.report import doctor as report
from tests.unit.conftest import MakeRoot, write
from tests.unit.plan.made_models import write_gguf

SCHEMA = Path(report.__file__).parent / "schema/doctor-1.json"
TWO = {0: {"cpus": "0-7"}, 1: {"cpus": "8-15"}}
GOLDEN = Path(__file__).parent / "golden"


def doctor(*words: object) -> Result:
    """As a user runs it on an 80-column terminal; errors of ours are raised."""
    environment = {"COLUMNS": "80", "NO_COLOR": "1"}
    result = CliRunner().invoke(cli, ["doctor", *map(str, words)], env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def document(*words: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(doctor("--json", *words).stdout)
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(found)
    return found


def levels(found: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["level"] for check in found["checks"]}


@pytest.fixture
def ailing(make_root: MakeRoot) -> Path:
    """Two nodes, with balancing on, huge pages off and swap in use."""
    root = make_root(TWO, packages={"0-7": 0, "8-15": 1})
    write(root / "proc/sys/kernel/numa_balancing", "1\n")
    write(root / "proc/sys/vm/max_map_count", "65530\n")
    write(root / "sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n")
    write(root / "proc/meminfo", "SwapTotal: 4194304 kB\nSwapFree: 1048576 kB\n")
    return root


def test_the_page_is_as_it_was_agreed(ailing: Path) -> None:
    result = doctor("--root", ailing)
    assert result.stdout == (GOLDEN / "doctor-two-nodes.txt").read_text()
    assert result.exit_code == 0  # warnings are no reason to fail


def test_something_bad_exits_1(make_root: MakeRoot) -> None:
    root = make_root({0: {"cpus": "0-63"}}, packages={"0-31": 0, "32-63": 1})
    result = doctor("--root", root)
    assert result.exit_code == 1
    assert result.stdout.startswith("bad  sockets")
    assert document("--root", root)["bad"] == 1


def test_json_names_every_check_with_level_text_and_remedy(ailing: Path) -> None:
    found = document("--root", ailing)
    assert (found["root"], found["command"], found["bad"]) == (str(ailing), [], 0)
    assert levels(found)["numa_balancing"] == "warn"
    remedies = {check["name"]: check["remedy"] for check in found["checks"]}
    assert remedies["numa_balancing"] == "sudo sysctl kernel.numa_balancing=0"


def test_this_machine_is_diagnosed_and_policy_calls_are_tried() -> None:
    found = document()
    if Path("/sys/devices/system/node/node0").exists():
        assert "policy calls" in levels(found)


def test_a_command_on_another_machine_is_weighed_there(ailing: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    write_gguf(model)
    found = levels(document("--root", ailing, "--", "llama-server", "-m", model, "-t", "16"))
    assert found["model"] == "ok" and found["memory"] == "ok" and found["threads"] == "ok"
    assert "engine" not in found and "page cache" not in found


def test_a_command_on_this_machine_has_its_engine_looked_at(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    write_gguf(model)
    command = ("--", sys.executable, "-c", "import json", "-m", model)
    found = document(*command)
    texts = {check["name"]: check["text"] for check in found["checks"]}
    assert texts["engine"].startswith("not known: ")
    if Path("/sys/devices/system/node/node0").exists():
        assert "page cache" in texts


def test_the_arguments_of_an_engine_behind_wrappers_are_the_engines(
    ailing: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model.gguf"
    write_gguf(model)
    string = f"exec llama-server -m {model} -c 512 -t 99"
    found = levels(document("--root", ailing, "--", "nice", "sh", "-c", string))
    assert (found["model"], found["threads"]) == ("ok", "bad")
    not_looked_into = levels(document("--root", ailing, "--", "sh", "-c", f"{string} | tee log"))
    assert not {"arguments", "model"} & not_looked_into.keys()
    here = document("--", "sh", "-c", f"{sys.executable} -c 'import json' -m {model}")
    assert levels(here)["model"] == "ok"


def test_a_model_that_is_not_there_is_bad_and_named(ailing: Path) -> None:
    result = doctor("--root", ailing, "--", "llama-server", "-m", "/no/such/model.gguf")
    assert result.exit_code == 1
    assert "/no/such/model.gguf" in result.stdout


def test_an_argument_that_the_engine_would_refuse_is_bad_and_named(ailing: Path) -> None:
    result = doctor("--root", ailing, "--", "llama-server", "-ngl", "many")
    assert result.exit_code == 1
    assert "-ngl many" in result.stdout
    found = document("--root", ailing, "--", "llama-server", "-m", "m.gguf", "-ngl", "many")
    assert levels(found)["arguments"] == "bad"
    assert not {"model", "threads"} & levels(found).keys()  # what they are is not known


def test_a_program_that_is_not_there_is_127() -> None:
    with pytest.raises(NumaMirrorError) as caught:
        doctor("--", "no-such-engine")
    assert caught.value.exit_code == 127


def test_a_dump_in_an_archive_can_be_read(ailing: Path, tmp_path: Path) -> None:
    import tarfile

    archive = tmp_path / "dump.tar.xz"
    with tarfile.open(archive, "w:xz") as file:
        file.add(ailing, "dump")
    assert levels(document("--root", archive)) == levels(document("--root", ailing))
