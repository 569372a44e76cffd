"""Every document of `run --json` is what docs/json.md promises."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import referencing

from tests.unit.launch.conftest import (
    REPOSITORY,
    Recorded,
    numamirror_run,
    numamirror_run_until,
)

SCHEMAS = REPOSITORY / "numamirror_cli" / "report" / "schema"


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    documents = {name: json.loads((SCHEMAS / name).read_text()) for name in
                 ("run-1.json", "inspect-1.json")}  # fmt: skip
    resources = [
        (name, referencing.Resource.from_contents(document)) for name, document in documents.items()
    ]
    jsonschema.Draft202012Validator.check_schema(documents["run-1.json"])
    registry = referencing.Registry().with_resources(resources)
    return jsonschema.Draft202012Validator(documents["run-1.json"], registry=registry)


def test_the_document_of_a_mirrored_run_is_valid(
    python_script: Callable[[str], Path],
    shim_env: dict[str, str],
    record: Recorded,
    validator: jsonschema.Draft202012Validator,
) -> None:
    program = python_script(
        "from tests.unit.launch import speaker; speaker.mirror(); time.sleep(300)"
    )
    words = ("--rehearse", "2", "--json", record.path, program)
    numamirror_run_until("shot.cause == 'when replicas were built'", *words, env=shim_env)
    document = record.read()
    validator.validate(document)
    assert document["mirror"] and document["placement"] and document["events"]
    document["mirror"]["coverage"] = 2
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(document)


def test_the_document_of_a_run_without_a_mirror_is_valid(
    record: Recorded, validator: jsonschema.Draft202012Validator
) -> None:
    numamirror_run("--json", record.path, "sh", "-c", "kill -9 $$")
    validator.validate(record.read())


def test_the_document_of_a_dry_run_is_valid(
    make_root: Callable[..., Path],
    record: Recorded,
    validator: jsonschema.Draft202012Validator,
) -> None:
    root = make_root({0: {"cpus": "0-3"}, 1: {"cpus": "4-7"}})
    numamirror_run("--dry-run", "--root", root, "--json", record.path, "true")
    validator.validate(record.read())
    del (document := record.read())["plan"]["home"]
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(document)


def test_every_key_is_in_the_documentation(record: Recorded) -> None:
    numamirror_run("--json", record.path, "true")
    text = (REPOSITORY / "docs" / "json.md").read_text()
    section = re.search(r"## `run --json FILE`.*?\n## ", text, re.DOTALL)
    assert section is not None
    document = record.read()
    for key in (*document, *document["plan"], *document["child"]):
        assert key == "schema" or f"`{key}`" in section[0], key
