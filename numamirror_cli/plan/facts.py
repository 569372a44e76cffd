"""The facts about a model, as its GGUF header states them. No I/O and no decisions here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

Setting = int | float | str | tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """One tensor of a model. type: ggml's name ("Q4_K"); dims: ggml's order, row length first;
    bytes: as it lies in the file."""

    name: str
    type: str
    dims: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Model:
    """A model file, split or not.

    parts: its files in order. settings: the metadata below the architecture's name, without that
    name ("block_count" for "gemma3.block_count"); numbers that come one per layer as a tuple.
    missing: bytes of tensors that lie beyond the ends of the files: a download that is not
    complete.
    """

    parts: tuple[Path, ...]
    name: str
    architecture: str
    tensors: tuple[Tensor, ...]
    settings: Mapping[str, Setting] = field(default_factory=dict)
    missing: int = 0

    def number(self, setting: str, default: int = 0) -> int:
        """A whole number of the settings; the largest where there is one per layer."""
        value = self.settings.get(setting, default)
        if isinstance(value, tuple):
            return max(value, default=default)
        return value if isinstance(value, int) else default

    def per_layer(self, setting: str, default: int = 0) -> tuple[int, ...]:
        """A setting for each layer; one that is the same for all is repeated."""
        value = self.settings.get(setting)
        if isinstance(value, tuple) and len(value) == self.layers:
            return value
        return (self.number(setting, default),) * self.layers

    @property
    def layers(self) -> int:
        return self.number("block_count")

    @property
    def bytes(self) -> int:
        """Of all tensors together."""
        return sum(tensor.bytes for tensor in self.tensors)
