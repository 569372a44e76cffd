"""Reading a model's header: what is in it, split files, and files that are no models."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.plan.gguf_header import read_model
from tests.unit.plan.made_models import SETTINGS, TENSORS, WHOLE, write_gguf


def test_names_types_dimensions_and_sizes_are_those_of_the_file(tmp_path: Path) -> None:
    model = read_model(write_gguf(tmp_path / "model.gguf"))
    assert model.name == "made for a test"
    assert model.architecture == "testmoe"
    assert {t.name: (t.dims, t.type) for t in model.tensors} == TENSORS
    assert model.bytes == WHOLE
    assert dict(model.settings) == SETTINGS


def test_a_setting_may_differ_from_layer_to_layer(tmp_path: Path) -> None:
    settings = {**SETTINGS, "attention.head_count_kv": [2, 4]}
    model = read_model(write_gguf(tmp_path / "model.gguf", settings=settings))
    assert model.per_layer("attention.head_count_kv") == (2, 4)
    assert model.per_layer("attention.key_length") == (128, 128)


def test_a_split_model_is_read_in_all_parts_given_any_of_them(tmp_path: Path) -> None:
    names = list(TENSORS)
    halves = [{n: TENSORS[n] for n in names[:5]}, {n: TENSORS[n] for n in names[5:]}]
    parts = [tmp_path / f"model-0000{n}-of-00002.gguf" for n in (1, 2)]
    write_gguf(parts[0], halves[0])
    write_gguf(parts[1], halves[1], {})
    for part in parts:
        model = read_model(part)
        assert model.parts == tuple(parts)
        assert model.bytes == WHOLE
        assert model.layers == 2


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model-00001-of-00002.gguf")
    with pytest.raises(NumaMirrorError, match=r"model-00002-of-00002\.gguf: there is no such file"):
        read_model(tmp_path / "model-00001-of-00002.gguf")


def test_the_beginning_of_a_download_is_enough(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "model.gguf")
    header = whole.read_bytes()[:4096]
    (tmp_path / "begun.gguf").write_bytes(header)
    model = read_model(tmp_path / "begun.gguf")
    assert model.bytes == WHOLE
    assert model.missing == whole.stat().st_size - 4096
    assert read_model(whole).missing == 0


def test_a_large_vocabulary_takes_no_time(tmp_path: Path) -> None:
    """With gguf's own reader, 262,144 tokens take 9 s of CPU time."""
    path = write_gguf(tmp_path / "model.gguf", vocabulary=1 << 18)
    began = time.process_time()
    assert read_model(path).bytes == WHOLE
    assert time.process_time() - began < 2


def test_a_type_that_gguf_does_not_know_takes_what_lies_before_the_next(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf")
    data = path.read_bytes()
    name = b"blk.0.ffn_up.weight"
    place = data.index(name) + len(name) + 4 + 2 * 8
    (tmp_path / "other.gguf").write_bytes(data[:place] + b"\x9b\x01\0\0" + data[place + 4 :])
    model = read_model(tmp_path / "other.gguf")
    tensor = next(t for t in model.tensors if t.name == name.decode())
    assert tensor.type == "type 411"
    assert tensor.bytes == 512 * 4096 * 18 // 32


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"GG", "it ends within its metadata"),
        (b"GGUF", "it ends within its metadata"),
        (b"PK\3\4" * 100, "it does not begin with the word GGUF"),
        (b"GGUF\x63\0\0\0" + b"\0" * 99, "99"),
    ],
)
def test_what_is_no_model_is_named_and_refused(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(content)
    with pytest.raises(NumaMirrorError, match=r"other\.gguf") as refused:
        read_model(path)
    assert why in refused.value.message
    assert refused.value.exit_code == 1


def test_a_file_that_is_cut_short_is_called_so_wherever_it_was_cut(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "model.gguf").read_bytes()
    length = whole.index(b"blk.1.")
    path = tmp_path / "cut.gguf"
    for end in range(1, length, 7):
        path.write_bytes(whole[:end])
        with pytest.raises(NumaMirrorError, match="it ends within its metadata"):
            read_model(path)


def test_a_directory_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(NumaMirrorError, match="there is no such file"):
        read_model(tmp_path / "absent.gguf")
    (tmp_path / "directory.gguf").mkdir()
    with pytest.raises(NumaMirrorError, match=r"directory\.gguf: Is a directory"):
        read_model(tmp_path / "directory.gguf")


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_scrambled_header_is_read_or_refused_and_nothing_else(
    tmp_path: Path, data: st.DataObject
) -> None:
    whole = tmp_path / "whole.gguf"
    if not whole.exists():
        write_gguf(whole)
    header = bytearray(whole.read_bytes()[:2048])
    for _ in range(data.draw(st.integers(1, 8))):
        header[data.draw(st.integers(4, len(header) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "scrambled.gguf"
    path.write_bytes(header[: data.draw(st.integers(0, len(header)))])
    try:
        model = read_model(path)
    except NumaMirrorError as refused:
        assert "scrambled.gguf" in refused.message
    else:
        assert all(tensor.bytes >= 0 for tensor in model.tensors)
