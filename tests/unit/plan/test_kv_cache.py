"""The KV cache in main memory, by hand."""

from __future__ import annotations

import pytest

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.plan.engine_args import parse_engine_args
from numamirror_cli.plan.kv_cache import kv_cache_bytes
from tests.unit.plan.made_models import SETTINGS, made_model


def cache(words: str = "", **settings: object) -> int:
    return kv_cache_bytes(
        made_model(settings={**SETTINGS, **settings}), parse_engine_args(words.split())
    )


def test_every_layer_keeps_keys_and_values_of_each_token() -> None:
    # 2 layers, 2 heads, 128 + 64 numbers of 2 bytes each, 4096 tokens
    assert cache() == 2 * 2 * (128 + 64) * 2 * 4096
    assert cache("-c 100") == 2 * 2 * (128 + 64) * 2 * 100


def test_quantized_caches_are_smaller() -> None:
    assert cache("-c 32 -ctk q8_0 -ctv q4_0") == 2 * 2 * (128 * 34 + 64 * 18)


def test_a_layer_on_the_gpu_has_its_cache_there() -> None:
    assert cache("-ngl 2") == cache() // 2
    assert cache("-ngl 99") == 0
    assert cache("-ngl 99 -nkvo") == cache()


def test_heads_may_differ_from_layer_to_layer() -> None:
    assert cache(**{"attention.head_count_kv": (0, 2)}) == cache() // 2


def test_latent_attention_keeps_one_vector() -> None:
    size = cache("-c 10", **{"attention.kv_lora_rank": 512, "rope.dimension_count": 64})
    assert size == 2 * (512 + 64) * 2 * 10


def test_a_type_that_there_is_not_is_named() -> None:
    with pytest.raises(NumaMirrorError, match="-ctv q9"):
        cache("-ctv q9")
