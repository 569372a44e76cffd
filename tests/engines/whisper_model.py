"""Generates a small whisper.cpp model with random weights, and something for it to listen to.

What it hears is nonsense; what counts is that the engine runs its encoder and decoder.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from paths import cache_dir

# whisper.cpp knows its special tokens by number, so that the vocabulary has the real one's size.
VOCABULARY = 51864
AUDIO_CONTEXT, TEXT_CONTEXT, MELS, FFT_BINS = 1500, 448, 80, 201
LAYERS, WIDTH, HEADS = 4, 128, 2
MAGIC, F32, F16 = 0x67676D6C, 0, 1
SAMPLES_PER_SECOND = 16000

Shape = tuple[int, ...]


def model() -> Path:
    """Path of the generated model in the cache, 17 MB; made on first use, the same each time."""
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    path = cache_dir() / f"whisper-f16-{recipe}.bin"
    if not path.exists():
        partial = path.with_suffix(f".partial{os.getpid()}")
        with partial.open("wb") as file:
            write_model(file)
        partial.rename(path)
    return path


def audio(seconds: int = 2) -> npt.NDArray[np.float32]:
    """A tone with some noise, as whisper.cpp takes it."""
    random = np.random.default_rng(16)
    time = np.arange(seconds * SAMPLES_PER_SECOND) / SAMPLES_PER_SECOND
    noise = random.standard_normal(len(time)) * 0.05
    return (np.sin(2 * np.pi * 440 * time) * 0.5 + noise).astype(np.float32)


def gemm_bytes() -> int:
    """Bytes of the weights that the engine hands to MUL_MAT as its first source: all matrices but
    the convolutions, which it hands over as the second."""
    shapes = [shape for name, shape in matrices() if "conv" not in name]
    return sum(2 * int(np.prod(shape)) for shape in shapes)


def write_model(file: BinaryIO) -> None:
    """whisper.cpp's own format: numbers, mel filters, vocabulary, then tensors to the end."""
    random = np.random.default_rng(27986)
    sizes = (AUDIO_CONTEXT, WIDTH, HEADS, LAYERS, TEXT_CONTEXT, WIDTH, HEADS, LAYERS, MELS)
    file.write(struct.pack("<I11i", MAGIC, VOCABULARY, *sizes, F16))
    file.write(struct.pack("<2i", MELS, FFT_BINS))
    file.write(random.uniform(0, 0.02, (MELS, FFT_BINS)).astype("<f4").tobytes())
    file.write(struct.pack("<i", VOCABULARY))
    for token in range(VOCABULARY):
        word = f" w{token}".encode() if token > 0 else b" "  # which it looks for
        file.write(struct.pack("<I", len(word)) + word)
    for name, shape in matrices():
        deviation = 1 / np.sqrt(np.prod(shape[1:]))
        values = random.standard_normal(shape, dtype=np.float32) * np.float32(deviation)
        write_tensor(file, name, values.astype("<f2"), F16)
    for name, shape in vectors():
        middle = 1.0 if name.endswith(".weight") else 0.0
        values = random.uniform(middle - 0.2, middle + 0.2, shape)
        write_tensor(file, name, values.astype("<f4"), F32)


def write_tensor(file: BinaryIO, name: str, values: npt.NDArray[np.generic], kind: int) -> None:
    dimensions = values.shape[::-1]
    file.write(struct.pack("<3i", len(dimensions), len(name), kind))
    file.write(struct.pack(f"<{len(dimensions)}i", *dimensions))
    file.write(name.encode() + values.tobytes())


def matrices() -> Iterator[tuple[str, Shape]]:
    """Name and numpy shape (rows, columns) of what is stored in F16."""
    yield "encoder.conv1.weight", (WIDTH, MELS, 3)
    yield "encoder.conv2.weight", (WIDTH, WIDTH, 3)
    yield "decoder.token_embedding.weight", (VOCABULARY, WIDTH)
    for block in blocks():
        yield f"{block}.mlp.0.weight", (4 * WIDTH, WIDTH)
        yield f"{block}.mlp.2.weight", (WIDTH, 4 * WIDTH)
    for attention in attentions():
        for part in ("query", "key", "value", "out"):
            yield f"{attention}.{part}.weight", (WIDTH, WIDTH)


def vectors() -> Iterator[tuple[str, Shape]]:
    """Norms, biases and positions, in F32. A key has no bias."""
    yield "encoder.positional_embedding", (AUDIO_CONTEXT, WIDTH)
    yield "decoder.positional_embedding", (TEXT_CONTEXT, WIDTH)
    yield "encoder.conv1.bias", (WIDTH, 1)
    yield "encoder.conv2.bias", (WIDTH, 1)
    norms = ["encoder.ln_post", "decoder.ln"]
    for block in blocks():
        norms.append(f"{block}.mlp_ln")
        yield f"{block}.mlp.0.bias", (4 * WIDTH,)
        yield f"{block}.mlp.2.bias", (WIDTH,)
    for attention in attentions():
        norms.append(f"{attention}_ln")
        for part in ("query", "value", "out"):
            yield f"{attention}.{part}.bias", (WIDTH,)
    for norm in norms:
        yield f"{norm}.weight", (WIDTH,)
        yield f"{norm}.bias", (WIDTH,)


def blocks() -> Iterator[str]:
    for layer in range(LAYERS):
        yield f"encoder.blocks.{layer}"
        yield f"decoder.blocks.{layer}"


def attentions() -> Iterator[str]:
    for block in blocks():
        yield f"{block}.attn"
        if block.startswith("decoder"):
            yield f"{block}.cross_attn"


if __name__ == "__main__":
    print(model())
