"""The JSON documents keep the promise of docs/json.md, key by key."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import numamirror_cli.report
from numamirror_cli.machine.read import read_machine
from numamirror_cli.memory.inspection import Sample, inspect_process
from numamirror_cli.memory.model_cache import ModelCache, look_at
from numamirror_cli.memory.model_files import find_model
from numamirror_cli.memory.policy import Policy
from numamirror_cli.memory.process import read_process
from numamirror_cli.report.cache import cache_json
from numamirror_cli.report.inspection import inspection_json
from numamirror_cli.report.judgement import judge
from numamirror_cli.report.topology import topology_json
from tests.unit.memory.replay import PID, two_node_root, write_process
from tests.unit.report.test_mirror_table import MIRRORED

SCHEMAS = Path(numamirror_cli.report.__file__).parent / "schema"
DOCS = Path(__file__).parents[3] / "docs/json.md"


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((SCHEMAS / name).read_text())
    jsonschema.Draft202012Validator.check_schema(loaded)
    return loaded


def check(document: dict[str, Any], name: str) -> None:
    as_printed = json.loads(json.dumps(document))
    jsonschema.validate(as_printed, schema(name), cls=jsonschema.Draft202012Validator)


def test_a_live_process():
    inspection = inspect_process(os.getpid())
    check(inspection_json(inspection, judge(inspection)), "inspect-1.json")


def test_a_mirrored_and_sampled_process(tmp_path):
    root = two_node_root(tmp_path)
    line = "7f2000000000 prefer:1 file=/m.gguf mapped=99999 N1=99999 kernelpagesize_kB=4\n"
    write_process(root, line + "broken\n", cpus=(0, 8))
    inspection = replace(
        inspect_process(PID, root), mirror=MIRRORED, sample=Sample(262_144, 12 << 20)
    )
    document = inspection_json(inspection, judge(inspection))
    assert document["weights"] and document["notes"] and document["mirror"]
    check(document, "inspect-1.json")


@pytest.mark.parametrize("spoil", ["placement_bytes", "mirror", "verdict"])
def test_the_schema_refuses_a_document_without_an_agreed_key(spoil):
    inspection = inspect_process(os.getpid())
    document = inspection_json(inspection, judge(inspection))
    del document[spoil]
    with pytest.raises(jsonschema.ValidationError, match=spoil):
        check(document, "inspect-1.json")


def test_the_page_cache_of_a_model(tmp_path):
    model = tmp_path / "m.gguf"
    model.write_bytes(bytes(1 << 20))
    looked_at = look_at(find_model(model), lambda _: None)
    mapped = ModelCache(looked_at.states, (read_process(os.getpid()),))
    for document in (
        cache_json(looked_at),
        cache_json(mapped, 4096, Policy("interleave", frozenset({0, 1}))),
    ):
        check(document, "cache-1.json")


@pytest.mark.parametrize("name", sorted(path.name for path in SCHEMAS.glob("*.json")))
def test_every_key_is_documented(name):
    documented = DOCS.read_text()

    def keys(part: Any) -> set[str]:
        if not isinstance(part, dict):
            return set()
        return set(part.get("properties", {})).union(*(keys(value) for value in part.values()))

    undocumented = {key for key in keys(schema(name)) if f"`{key}`" not in documented}
    assert undocumented - {"schema", "level", "text"} == set()


def printed_and_not_in(schema: dict[str, Any], document: Any, part: dict[str, Any]) -> set[str]:
    """Keys of a document, at any depth, that its schema does not name."""
    part = schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
    choices = [part, *part.get("anyOf", []), *part.get("oneOf", [])]
    if len(choices) > 1:
        return set.intersection(*(printed_and_not_in(schema, document, c) for c in choices[1:]))
    if isinstance(document, list):
        return set().union(*(printed_and_not_in(schema, d, part["items"]) for d in document))
    if not isinstance(document, dict):
        return set()
    named, others = part.get("properties", {}), part.get("additionalProperties")
    unknown = set() if others else set(document) - set(named)
    return unknown.union(
        *(
            printed_and_not_in(schema, value, named.get(key, others or {}))
            for key, value in document.items()
            if key in named or others
        )
    )


def test_every_key_that_is_printed_is_in_the_schema(tmp_path):
    inspection = replace(inspect_process(os.getpid()), mirror=MIRRORED)
    printed = inspection_json(inspection, judge(inspection))
    whole = schema("inspect-1.json")
    assert printed["mirror"]
    assert printed_and_not_in(whole, json.loads(json.dumps(printed)), whole) == set()
    machine = topology_json(read_machine(Path("/"), environ={}))
    whole = schema("topology-1.json")
    assert printed_and_not_in(whole, json.loads(json.dumps(machine)), whole) == set()
    spoilt = json.loads(json.dumps(printed))
    spoilt["mirror"]["new_bytes"] = spoilt["threads"]["new"] = 1
    whole = schema("inspect-1.json")
    assert printed_and_not_in(whole, spoilt, whole) == {"new_bytes", "new"}
