"""Models made for tests: real GGUF files whose weights are holes, and the facts alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf

from numamirror_cli.plan.facts import Model, Tensor

Tensors = Mapping[str, tuple[tuple[int, ...], str]]

# Two layers; layer 0 is dense, layer 1 has 8 experts of which 2 are used, and a shared one.
SETTINGS: dict[str, Any] = {
    "block_count": 2,
    "context_length": 4096,
    "embedding_length": 512,
    "attention.head_count": 8,
    "attention.head_count_kv": 2,
    "attention.key_length": 128,
    "attention.value_length": 64,
    "expert_count": 8,
    "expert_used_count": 2,
}
TENSORS: dict[str, tuple[tuple[int, ...], str]] = {
    "token_embd.weight": ((512, 8192), "Q8_0"),
    "output.weight": ((512, 8192), "Q8_0"),
    "output_norm.weight": ((512,), "F32"),
    "blk.0.attn_norm.weight": ((512,), "F32"),
    "blk.0.attn_q.weight": ((512, 1024), "F16"),
    "blk.0.attn_q.bias": ((1024,), "F32"),
    "blk.0.ffn_up.weight": ((512, 4096), "Q4_0"),
    "blk.1.attn_q.weight": ((512, 1024), "F16"),
    "blk.1.ffn_gate_inp.weight": ((512, 8), "F32"),
    "blk.1.ffn_up_exps.weight": ((512, 4096, 8), "Q4_0"),
    "blk.1.ffn_down_exps.weight": ((4096, 512, 8), "Q4_0"),
    "blk.1.ffn_up_shexp.weight": ((512, 4096), "Q4_0"),
}
MIB = 1 << 20
BYTES = {
    "token_embd.weight": 512 * 8192 * 34 // 32,
    "attn_q": 512 * 1024 * 2,
    "ffn_up": 512 * 4096 * 18 // 32,
    "gate_inp": 512 * 8 * 4,
}
# All of the model's bytes, added up by hand from the table above.
WHOLE = (
    2 * BYTES["token_embd.weight"]
    + 2 * 512 * 4
    + 2 * BYTES["attn_q"]
    + 1024 * 4
    + BYTES["gate_inp"]
    + (1 + 8 + 8 + 1) * BYTES["ffn_up"]
)


def write_gguf(
    path: Path,
    tensors: Tensors = TENSORS,
    settings: Mapping[str, Any] = SETTINGS,
    *,
    arch: str = "testmoe",
    vocabulary: int = 16,
    **metadata: Any,
) -> Path:
    """Write a GGUF file of full size whose weights are a hole."""
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name("made for a test")
    for name, value in {**{f"{arch}.{k}": v for k, v in settings.items()}, **metadata}.items():
        if isinstance(value, (list, tuple)):
            writer.add_array(name, list(value))
        elif isinstance(value, str):
            writer.add_string(name, value)
        else:
            writer.add_uint32(name, value)
    writer.add_token_list([f"token {number}" for number in range(vocabulary)])
    writer.add_token_scores([float(number) for number in range(vocabulary)])
    total = 0
    for name, (dims, kind) in tensors.items():
        number = gguf.GGMLQuantizationType[kind]
        size = tensor_bytes(dims, kind)
        writer.add_tensor_info(name, dims[::-1], _dtype(), size, raw_dtype=number)
        total += -(-size // 32) * 32
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    header = -(-path.stat().st_size // 32) * 32
    with path.open("r+b") as file:
        file.truncate(header + total)
    return path


def _dtype() -> Any:
    import numpy as np

    return np.dtype(np.float32)


def tensor_bytes(dims: tuple[int, ...], kind: str) -> int:
    values, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    count = 1
    for dim in dims:
        count *= dim
    return count * size // values


def made_model(
    tensors: Tensors = TENSORS, settings: Mapping[str, Any] = SETTINGS, name: str = "made"
) -> Model:
    """The facts of such a model, without a file."""
    listed = [
        Tensor(n, kind, dims, tensor_bytes(dims, kind)) for n, (dims, kind) in tensors.items()
    ]
    return Model((Path(f"{name}.gguf"),), name, "testmoe", tuple(listed), settings)
