"""Reads the header of a GGUF model with PyPI's `gguf`: metadata and tensor list, no weights.

gguf.GGUFReader makes an object of every vocabulary entry and a view of every tensor: 20 s and
700 MiB for a 250-MiB model with 262,144 tokens. Two of its steps are therefore replaced: arrays
are stepped over, and tensors are taken from their headers alone, so that the first megabytes of a
download are enough.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType
from gguf.gguf_reader import GGUFReader, ReaderField

from numamirror_cli.errors import NumaMirrorError, unreadable
from numamirror_cli.memory.model_files import find_model, find_parts, not_there
from numamirror_cli.plan.facts import Model, Setting, Tensor

# Numbers that come one per layer are kept; a vocabulary is not.
_LONGEST_ARRAY = 4096
_MAGIC = b"GGUF"
_CUT_SHORT = "it ends within its metadata"
# What the reader raises over bytes that are no header, or half of one.
_BROKEN = (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError, struct.error)


def read_model(path: Path) -> Model:
    """The model of that file; a split one is read in all its parts, given any of them.

    Raises NumaMirrorError, naming the file, when a part is missing or is no GGUF file.
    """
    found = find_model(path)
    if found.missing:
        missing = found.missing[0]
        raise NumaMirrorError(not_there(missing), hint=find_parts(missing))
    headers = [_read_header(part) for part in found.parts]
    values = headers[0].values
    architecture = str(values.get("general.architecture", ""))
    below = f"{architecture}."
    return Model(
        parts=found.parts,
        name=str(values.get("general.name", path.stem)),
        architecture=architecture,
        tensors=tuple(tensor for header in headers for tensor in header.tensors),
        settings={k.removeprefix(below): v for k, v in values.items() if k.startswith(below)},
        missing=sum(header.missing for header in headers),
    )


@dataclass(frozen=True)
class _Header:
    """What one file says: metadata by key, texts in lists left out, and its tensors; of these,
    bytes that are missing at its end."""

    values: Mapping[str, Setting]
    tensors: tuple[Tensor, ...]
    missing: int


def _read_header(path: Path) -> _Header:
    try:
        reader = _HeaderReader(path)
        return _Header(dict(_values(reader)), tuple(reader.heads), reader.missing)
    except OSError as error:
        raise unreadable(path, error) from None
    except _BROKEN as error:
        raise NumaMirrorError(
            f"{path}: not a GGUF model that can be read: {_words(path, error)}",
            hint="is the file complete, and a model for llama.cpp?",
        ) from None


def _words(path: Path, error: Exception) -> str:
    """What a person would call it; the reader's own words where they say more than that."""
    with path.open("rb") as file:
        begins = file.read(len(_MAGIC))
    if not begins:
        return "it is empty"
    if begins != _MAGIC[: len(begins)]:
        return "it does not begin with the word GGUF"
    text = str(error.args[0]) if error.args else ""
    return text.splitlines()[0] if text else type(error).__name__


def _values(reader: GGUFReader) -> Iterator[tuple[str, Setting]]:
    for key, field in reader.fields.items():
        contents = field.contents() if field.data else None
        if isinstance(contents, list):
            yield key, tuple(int(number) for number in contents)
        elif isinstance(contents, (int, float, str)):
            yield key, contents


class _HeaderReader(GGUFReader):
    """GGUFReader without vocabulary and weights. heads: its tensors; missing: bytes of them that
    lie beyond the end of the file. The constructor of the base class, which calls the methods
    below, fills them."""

    heads: Sequence[Tensor] = ()
    missing = 0

    def _get(self, offset: int, dtype: Any, count: int = 1, *order: Any, **orders: Any) -> Any:
        if offset + np.dtype(dtype).itemsize * int(count) > len(self.data):
            raise ValueError(_CUT_SHORT)
        return super()._get(offset, dtype, count, *order, **orders)

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
        if raw_type != GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        kind = GGUFValueType(int(self._get(orig_offs, np.uint32)[0]))
        count, start = int(self._get(orig_offs + 4, np.uint64)[0]), orig_offs + 12
        types = [GGUFValueType.ARRAY, kind]
        if kind == GGUFValueType.STRING:
            return self._end_of_strings(start, count) - orig_offs, [], [], types
        scalar = self.gguf_scalar_to_np.get(kind)
        if scalar is None:
            raise ValueError("an array of arrays in its metadata")
        end = start + count * np.dtype(scalar).itemsize
        if end > len(self.data):
            raise ValueError(_CUT_SHORT)
        if count > _LONGEST_ARRAY:
            return end - orig_offs, [], [], types
        return end - orig_offs, [self._get(start, scalar, count)], [0], types

    def _end_of_strings(self, offset: int, count: int) -> int:
        """Where that many strings, each with its length before it, end."""
        swapped, little = self.byte_order == "S", sys.byteorder == "little"
        length = struct.Struct(">Q" if swapped == little else "<Q").unpack_from
        for _ in range(count):
            if offset + 8 > len(self.data):
                raise ValueError(_CUT_SHORT)
            offset += 8 + length(self.data.data, offset)[0]
        return offset

    def _build_tensors(self, start_offs: int, fields: list[ReaderField]) -> None:
        starts = sorted(_offset(field) for field in fields)
        ends = [*starts, len(self.data) - start_offs]
        self.heads = [_tensor(field, ends) for field in fields]
        reach = (_offset(f) + head.bytes for f, head in zip(fields, self.heads, strict=True))
        self.missing = max(0, max(reach, default=0) - ends[-1])


def _offset(field: ReaderField) -> int:
    return int(field.parts[-1][0])


def _tensor(field: ReaderField, ends: Sequence[int]) -> Tensor:
    """One entry of the tensor list, whose parts are: length of the name, name, number of
    dimensions, dimensions, type, offset."""
    dims = tuple(int(dim) for dim in field.parts[3])
    number, offset = int(field.parts[4][0]), _offset(field)
    try:
        kind = GGMLQuantizationType(number)
        values, size = GGML_QUANT_SIZES[kind]
    except (ValueError, KeyError):
        # A type of one engine alone: the tensor ends where the next one begins.
        end = next((end for end in ends if end > offset), offset)
        return Tensor(field.name, f"type {number}", dims, end - offset)
    return Tensor(field.name, kind.name, dims, math.prod(dims) * size // values)
