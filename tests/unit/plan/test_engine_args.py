"""The engine's command line: what it says about weights, and what is not understood."""

from __future__ import annotations

import pytest

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.plan.engine_args import ALL_LAYERS, EngineArguments, parse_engine_args


def parse(text: str) -> EngineArguments:
    return parse_engine_args(text.split())


def test_nothing_said_is_everything_on_the_cpu_and_mapped() -> None:
    arguments = parse("")
    assert arguments.gpu_layers is None
    assert arguments.mmap
    assert not arguments.mlock
    assert arguments.unknown == ()


@pytest.mark.parametrize(
    ("words", "layers"),
    [
        ("-ngl 20", 20),
        ("--n-gpu-layers all", ALL_LAYERS),
        ("-ngl auto", None),
        ("-ngl 99 -dev none", 0),
    ],
)
def test_layers_for_gpus(words: str, layers: int | None) -> None:
    assert parse(words).gpu_layers == layers


def test_the_program_may_stand_before_its_arguments() -> None:
    assert parse("llama-server -m a.gguf -t 8").threads == 8
    assert parse("-m a.gguf -t 8").model == "a.gguf"


def test_overrides_keep_their_order_and_their_side() -> None:
    overrides = parse(r"-ot \.ffn_up=CUDA0,exps=CPU --n-cpu-moe 2 -ot attn=CUDA_Host").overrides
    sides = [(o.pattern.pattern, o.on_cpu) for o in overrides]
    assert sides[:2] == [(r"\.ffn_up", False), ("exps", True)]
    assert [o.pattern.search("blk.1.ffn_gate_exps.weight") is not None for o in overrides[2:4]] == [
        False,
        True,
    ]
    assert sides[-1] == ("attn", True)


def test_loading_options() -> None:
    assert not parse("--no-mmap").mmap
    assert not parse("-dio").mmap
    assert parse("--mlock").mlock
    modes = {mode: parse(f"--load-mode {mode}") for mode in ("none", "mmap+mlock", "auto")}
    assert [(m.mmap, m.mlock) for m in modes.values()] == [
        (False, False),
        (True, True),
        (True, False),
    ]


def test_cache_context_and_threads() -> None:
    arguments = parse("-c 32768 -ctk q8_0 -ctv Q4_0 -t 64 -nkvo --numa distribute")
    assert (arguments.context, arguments.cache_type_k, arguments.cache_type_v) == (
        32768,
        "q8_0",
        "q4_0",
    )
    assert (arguments.threads, arguments.kv_offload, arguments.numa) == (64, False, "distribute")
    assert parse("-t -1").threads is None


def test_what_is_not_understood_is_listed_with_its_value() -> None:
    arguments = parse("--port 8080 --jinja -ngl 5 --seed -1 stray -fa")
    assert arguments.unknown == ("--port 8080", "--jinja", "--seed -1", "stray", "-fa")
    assert arguments.gpu_layers == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-ngl many", "-ngl many"),
        ("-t", "-t: its value is missing"),
        ("-ot exps", "-ot exps"),
        ("-ot (=CPU", "-ot (=CPU"),
        ("-c big", "-c big"),
    ],
)
def test_a_value_that_the_engine_would_refuse_is_named(words: str, said: str) -> None:
    with pytest.raises(NumaMirrorError) as refused:
        parse(words)
    assert said in refused.value.message
    assert refused.value.exit_code == 2
