"""How large the KV cache in main memory can become."""

from __future__ import annotations

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.plan.engine_args import EngineArguments
from numamirror_cli.plan.facts import Model
from numamirror_cli.plan.workload import layer_is_on_cpu

# Bytes of a block and values in it (ggml-common.h), for the types that a cache may have.
_TYPES = {
    "f32": (4, 1),
    "f16": (2, 1),
    "bf16": (2, 1),
    "q8_0": (34, 32),
    "q5_1": (24, 32),
    "q5_0": (22, 32),
    "q4_1": (20, 32),
    "q4_0": (18, 32),
    "iq4_nl": (18, 32),
}


def context_tokens(model: Model, arguments: EngineArguments) -> int:
    """Tokens of context: those asked for with -c, else those of the training."""
    return arguments.context or model.number("context_length")


def kv_cache_bytes(model: Model, arguments: EngineArguments) -> int:
    """Bytes of the cache of the layers on the CPU with a full context: an upper bound, since
    layers with a sliding window or a recurrent state need less.

    Raises NumaMirrorError (exit 2) for a cache type that ggml does not have.
    """
    per_token = 0.0
    for layer, (keys, values) in enumerate(_values_per_token(model)):
        if not arguments.kv_offload or layer_is_on_cpu(layer, model, arguments):
            per_token += keys * _bytes_per_value("-ctk", arguments.cache_type_k)
            per_token += values * _bytes_per_value("-ctv", arguments.cache_type_v)
    return round(per_token * context_tokens(model, arguments))


def _values_per_token(model: Model) -> list[tuple[int, int]]:
    """How many numbers each layer keeps of a token, as keys and as values."""
    if latent := model.number("attention.kv_lora_rank"):
        # Multi-head latent attention keeps one compressed vector; the values are a part of it.
        return [(latent + model.number("rope.dimension_count"), 0)] * model.layers
    heads = model.number("attention.head_count", 1)
    width = model.number("embedding_length") // max(1, heads)
    keys = model.number("attention.key_length", width)
    values = model.number("attention.value_length", width)
    kv_heads = model.per_layer("attention.head_count_kv", heads)
    return [(keys * count, values * count) for count in kv_heads]


def _bytes_per_value(option: str, name: str) -> float:
    if name not in _TYPES:
        raise NumaMirrorError(
            f"{option} {name}: no such type", hint=f"give one of {', '.join(_TYPES)}", exit_code=2
        )
    size, values = _TYPES[name]
    return size / values
