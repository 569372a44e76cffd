"""Generates small GGUF models with random weights: mixture of experts, and dense.

The text they write is nonsense; what counts is that the engine runs its real kernels on them.
`python tests/engines/moe.py` lists the models, `... SIZE-KIND-TYPE` makes one and prints its path.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
from paths import cache_dir

TYPES = ("F16", "Q8_0", "Q4_0", "Q3_K", "Q4_K", "IQ2_XXS")
# Those whose rows may have any length: of the size "odd".
FLOAT_TYPES = ("F32", "F16", "BF16")
KINDS = ("moe", "dense")
SECONDS_OF_A_DAY = 86400

# Byte offsets of the f16 scales inside a block, and their size relative to the first one. Types
# that gguf cannot quantize get random blocks; Q4_K's minimum then centres its values on zero.
BLOCK_SCALES = {
    "Q3_K": ((108, 1.0),),
    "Q4_K": ((0, 1.0), (2, 7.5)),
    "IQ2_XXS": ((0, 1.0),),
}


@dataclass(frozen=True)
class Shape:
    """Hyper-parameters of a model. experts == 0: dense, ff is then the width of its one FFN."""

    arch: str
    layers: int
    embd: int
    ff: int
    vocab: int
    experts: int = 8
    experts_used: int = 2
    heads: int = 4
    kv_heads: int = 2

    @property
    def head_dim(self) -> int:
        return self.embd // self.heads

    def as_dense(self) -> Shape:
        """The same widths with the plain FFN of a llama."""
        return replace(self, arch="llama", experts=0, experts_used=0, ff=2 * self.ff)


# In "small" every expert tensor is at least 1 MiB in every type; in "tiny" in F16 and Q8_0. "many"
# has as many experts as today's models; in "broad" one expert is over 100 pages, in Q8_0; in "wide"
# the output matrix is over 4 huge pages, in Q4_0; in "odd" the rows of ffn_down are 510 long.
MOE_SHAPES = {
    "small": Shape("qwen3moe", layers=3, embd=512, ff=1024, vocab=4096),
    "tiny": Shape("qwen3moe", layers=2, embd=256, ff=512, vocab=1024),
    "many": Shape("qwen3moe", layers=2, embd=256, ff=512, vocab=1024, experts=128, experts_used=4),
    "broad": Shape("qwen3moe", layers=1, embd=512, ff=1024, vocab=1024, experts=4),
    "wide": Shape("qwen3moe", layers=1, embd=2048, ff=256, vocab=8192, heads=16, kv_heads=8),
    "odd": Shape("qwen3moe", layers=2, embd=256, ff=510, vocab=1024),
}


def model(size: str = "small", kind: str = "moe", type_name: str = "Q8_0") -> Path:
    """Path of the generated model in the cache; made on first use, the same bytes each time.

    size: of MOE_SHAPES, "small" below 150 MB, "tiny" below 20 MB; kind: one of KINDS; type_name:
    one of TYPES, or of FLOAT_TYPES, used for every matrix. Raises KeyError for another size.
    """
    shape = MOE_SHAPES[size] if kind == "moe" else MOE_SHAPES[size].as_dense()
    # Named after this file's content: a changed recipe never meets a model of the old one.
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    path = cache_dir() / f"{size}-{kind}-{type_name.lower()}-{recipe}.gguf"
    if not path.exists():
        partial = path.with_suffix(f".partial{os.getpid()}")
        write_model(partial, shape, type_name)
        partial.rename(path)
        drop_older_recipes(path, recipe)
    return path


def drop_older_recipes(path: Path, recipe: str) -> None:
    """What was made today may be in use by the tests of another checkout."""
    for other in path.parent.glob(f"{path.stem.removesuffix(recipe)}*.gguf"):
        with contextlib.suppress(FileNotFoundError):
            if other != path and time.time() - other.stat().st_mtime > SECONDS_OF_A_DAY:
                other.unlink()


def write_model(path: Path, shape: Shape, type_name: str) -> None:
    """Writes one GGUF: metadata, an own vocabulary, then every tensor from one fixed seed."""
    random = np.random.default_rng(27986)
    writer = gguf.GGUFWriter(path, shape.arch)
    add_hyper_parameters(writer, shape)
    add_vocabulary(writer, shape.vocab)
    for name, dims in matrices(shape):
        kind = gguf.GGMLQuantizationType[type_name]
        writer.add_tensor(name, random_matrix(random, dims, kind), raw_dtype=kind)
    for name, dims in vectors(shape):
        writer.add_tensor(name, random_f32(random, name, dims))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_hyper_parameters(writer: gguf.GGUFWriter, shape: Shape) -> None:
    writer.add_name(f"random {shape.arch}")
    writer.add_block_count(shape.layers)
    writer.add_context_length(2048)
    writer.add_embedding_length(shape.embd)
    writer.add_feed_forward_length(shape.ff)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    if shape.experts:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(shape.experts_used)
        writer.add_expert_feed_forward_length(shape.ff)


def matrices(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and numpy shape (rows, columns), experts first, of what GEMM reads."""
    q_width, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    yield "token_embd.weight", (shape.vocab, shape.embd)
    yield "output.weight", (shape.vocab, shape.embd)
    for i in range(shape.layers):
        yield f"blk.{i}.attn_q.weight", (q_width, shape.embd)
        yield f"blk.{i}.attn_k.weight", (kv_width, shape.embd)
        yield f"blk.{i}.attn_v.weight", (kv_width, shape.embd)
        yield f"blk.{i}.attn_output.weight", (shape.embd, q_width)
        suffix, experts = ("_exps", (shape.experts,)) if shape.experts else ("", ())
        yield f"blk.{i}.ffn_gate{suffix}.weight", (*experts, shape.ff, shape.embd)
        yield f"blk.{i}.ffn_up{suffix}.weight", (*experts, shape.ff, shape.embd)
        yield f"blk.{i}.ffn_down{suffix}.weight", (*experts, shape.embd, shape.ff)


def vectors(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Norms and the router, which stay F32 in real models too."""
    yield "output_norm.weight", (shape.embd,)
    for i in range(shape.layers):
        yield f"blk.{i}.attn_norm.weight", (shape.embd,)
        yield f"blk.{i}.ffn_norm.weight", (shape.embd,)
        if shape.experts:
            yield f"blk.{i}.attn_q_norm.weight", (shape.head_dim,)
            yield f"blk.{i}.attn_k_norm.weight", (shape.head_dim,)
            yield f"blk.{i}.ffn_gate_inp.weight", (shape.experts, shape.embd)


def random_f32(
    random: np.random.Generator, name: str, dims: tuple[int, ...]
) -> npt.NDArray[np.float32]:
    if "norm" in name:
        return random.uniform(0.8, 1.2, dims).astype(np.float32)
    return random.standard_normal(dims, dtype=np.float32) / np.float32(np.sqrt(dims[-1]))


def random_matrix(
    random: np.random.Generator, dims: tuple[int, ...], kind: gguf.GGMLQuantizationType
) -> npt.NDArray[np.generic]:
    """Weights with a deviation of 1/sqrt(columns), so that activations stay of order one."""
    if kind.name in BLOCK_SCALES:
        return random_blocks(random, dims, kind)
    values = random.standard_normal(dims, dtype=np.float32) / np.float32(np.sqrt(dims[-1]))
    if kind == gguf.GGMLQuantizationType.F16:
        return values.astype(np.float16)
    quantized: npt.NDArray[np.uint8] = gguf.quants.quantize(values, kind)
    return quantized


def random_blocks(
    random: np.random.Generator, dims: tuple[int, ...], kind: gguf.GGMLQuantizationType
) -> npt.NDArray[np.uint8]:
    """Any bytes are a valid block but for the f16 scales: those are set to a sane size."""
    block_values, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    row_blocks = dims[-1] // block_values
    shape = (*dims[:-1], row_blocks, block_bytes)
    blocks = random.integers(0, 256, shape, dtype=np.uint8)
    put_scales(blocks, kind.name, 1.0)
    sample = gguf.quants.dequantize(blocks.reshape(-1, block_bytes)[:512], kind)
    put_scales(blocks, kind.name, 1.0 / (float(np.std(sample)) * np.sqrt(dims[-1])))
    return blocks.reshape(*dims[:-1], row_blocks * block_bytes)


def put_scales(blocks: npt.NDArray[np.uint8], type_name: str, scale: float) -> None:
    for offset, factor in BLOCK_SCALES[type_name]:
        value = np.array([scale * factor], dtype="<f2").view(np.uint8)
        blocks[..., offset : offset + 2] = value


def add_vocabulary(writer: gguf.GGUFWriter, count: int) -> None:
    """A SentencePiece vocabulary of our own: control tokens, ASCII, made-up words.

    No byte above 0x7F, so that prompts are ASCII and whatever is generated is valid UTF-8:
    llama-server answers 500 to a lone byte.
    """
    kinds = gguf.TokenType
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(128)]
    types = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL] + [kinds.BYTE] * 128
    words = made_up_words()
    while len(tokens) < count:
        tokens.append(next(words))
        types.append(kinds.NORMAL)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(count)])
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)


def made_up_words() -> Iterator[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    yield "\u2581"
    yield from letters
    syllables = [c + v for c in letters if c not in "aeiou" for v in "aeiou"]
    yield from syllables
    yield from (f"\u2581{a}{b}" for a in syllables for b in syllables)


def main() -> None:
    if len(sys.argv) != 2:
        for size in MOE_SHAPES:
            types = FLOAT_TYPES if size == "odd" else TYPES
            print("\n".join(f"{size}-{kind}-{name}" for kind in KINDS for name in types))
        return
    size, kind, type_name = sys.argv[1].split("-")
    print(model(size, kind, type_name))


if __name__ == "__main__":
    main()
