"""The JSON of every dump keeps to the schema that docs/json.md promises."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from numamirror_cli.machine.read import read_machine
from numamirror_cli.report import topology

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")

SCHEMA = Path(topology.__file__).parent / "schema/topology-1.json"


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def document(root: Path) -> dict[str, Any]:
    read = topology.topology_json(read_machine(root, environ={}))
    as_others_read_it: dict[str, Any] = json.loads(json.dumps(read))
    return as_others_read_it


def test_every_dump_keeps_to_the_schema(
    validator: Any, shared_dir: Path, unpacked_dump: Callable[[str], Path]
) -> None:
    archives = sorted((shared_dir / "topologies").glob("*.tar.xz"))
    assert archives
    for archive in archives:
        validator.validate(document(unpacked_dump(archive.name.removesuffix(".tar.xz"))))


def test_this_machine_and_one_without_numa_keep_to_the_schema(
    validator: Any, tmp_path: Path
) -> None:
    validator.validate(document(Path("/")))
    validator.validate(document(tmp_path))


@pytest.mark.parametrize(
    ("key", "value"),
    [("schema", 2), ("numa", "yes"), ("home", {"node": "0", "reason": "x"}), ("notes", [""])],
)
def test_the_schema_refuses_what_is_wrong(
    validator: Any, tmp_path: Path, key: str, value: Any
) -> None:
    assert not validator.is_valid({**document(tmp_path), key: value})


def test_every_key_of_the_document_is_in_the_schema(
    unpacked_dump: Callable[[str], Path],
) -> None:
    schema = json.loads(SCHEMA.read_text())
    read = document(unpacked_dump("nvidiagpunumanodes"))
    assert read.keys() == schema["properties"].keys()
    assert read["nodes"][0].keys() == schema["$defs"]["node"]["properties"].keys()
    assert read["gpus"][0].keys() == schema["$defs"]["gpu"]["properties"].keys()
