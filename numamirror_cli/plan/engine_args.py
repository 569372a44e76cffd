"""What an engine's command line says about where its weights go.

The options are those of llama.cpp's programs (`llama-server --help`) and of its relatives. What is
not among them is listed, never guessed at.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from numamirror_cli.errors import NumaMirrorError

ALL_LAYERS = sys.maxsize

# The tensors that --cpu-moe and --n-cpu-moe mean.
_EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"


@dataclass(frozen=True)
class Override:
    """Tensors whose name has `pattern` in it go to the CPU, or do not."""

    pattern: re.Pattern[str]
    on_cpu: bool


@dataclass(frozen=True)
class EngineArguments:
    """gpu_layers: None when it was not given or left to the engine ("auto").

    overrides: in the order given, the first that matches decides. threads: None when not given.
    context: tokens, 0 for what the model was trained with. cache_type_k, cache_type_v: ggml's
    names, lower case. numa: the engine's own --numa, "" when not given. model: file named with
    -m, "" when none is. unknown: words that were not understood, options with their values.
    """

    gpu_layers: int | None = None
    overrides: tuple[Override, ...] = ()
    threads: int | None = None
    mmap: bool = True
    mlock: bool = False
    context: int = 0
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    kv_offload: bool = True
    numa: str = ""
    model: str = ""
    unknown: tuple[str, ...] = ()


@dataclass
class _Reading:
    """What has been read so far."""

    facts: dict[str, Any] = field(default_factory=dict)
    overrides: list[Override] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def parse_engine_args(words: Sequence[str]) -> EngineArguments:
    """Read the words of a command line; the program's name may stand before them.

    Raises NumaMirrorError (exit 2), naming the option, for a value that the engine would refuse.
    """
    reading = _Reading()
    rest = list(words[1:] if words and not words[0].startswith("-") else words)
    while rest:
        word = rest.pop(0)
        if word in _FLAGS:
            _FLAGS[word](reading)
        elif word in _VALUES:
            if not rest:
                raise NumaMirrorError(
                    f"{word}: its value is missing",
                    hint=f"give {word} as the engine takes it, or leave it out",
                    exit_code=2,
                )
            _take_value(reading, word, rest.pop(0))
        else:
            reading.unknown.append(_with_value(word, rest))
    return EngineArguments(
        **reading.facts, overrides=tuple(reading.overrides), unknown=tuple(reading.unknown)
    )


def _take_value(reading: _Reading, option: str, value: str) -> None:
    try:
        _VALUES[option](reading, value)
    except (ValueError, re.error) as error:
        why = error if isinstance(error, re.error) else f"not what {option} takes"
        raise NumaMirrorError(
            f"{option} {value}: {why}", hint=f"give {option} as the engine takes it", exit_code=2
        ) from None


def _with_value(option: str, rest: list[str]) -> str:
    """An option that is not known, with the word that seems to be its value."""
    takes_one = option.startswith("-") and rest and not _is_option(rest[0])
    return f"{option} {rest.pop(0)}" if takes_one else option


def _is_option(word: str) -> bool:
    """A dash and then no number: "-1" is a value."""
    return re.match(r"--?[A-Za-z]", word) is not None


def _say(name: str, value: object) -> Callable[[_Reading], None]:
    def note(reading: _Reading) -> None:
        reading.facts[name] = value

    return note


def _read(name: str, convert: Callable[[str], object]) -> Callable[[_Reading, str], None]:
    def note(reading: _Reading, text: str) -> None:
        reading.facts[name] = convert(text)

    return note


def _gpu_layers(text: str) -> int | None:
    if text == "auto":
        return None
    number = ALL_LAYERS if text == "all" else int(text)
    return number if number >= 0 else None


def _threads(text: str) -> int | None:
    number = int(text)
    return number if number > 0 else None


def _device(reading: _Reading, text: str) -> None:
    """ "-dev none" keeps all on the CPU, whatever -ngl says."""
    if text == "none":
        reading.facts["gpu_layers"] = 0
    else:
        reading.unknown.append(f"--device {text}")


def _load_mode(reading: _Reading, text: str) -> None:
    reading.facts["mmap"] = text in ("auto", "mmap", "mmap+mlock")
    reading.facts["mlock"] = "mlock" in text


def _override(reading: _Reading, text: str) -> None:
    """ "PATTERN=BUFFER,...": buffers of the CPU are called CPU..., or end in _Host."""
    for entry in text.split(","):
        pattern, equals, buffer = entry.rpartition("=")
        if not equals:
            raise ValueError(entry)
        on_cpu = buffer.startswith("CPU") or buffer.endswith("_Host")
        reading.overrides.append(Override(re.compile(pattern), on_cpu))


def _all_experts(reading: _Reading) -> None:
    reading.overrides.append(Override(re.compile(_EXPERTS), True))


def _experts_of_first(reading: _Reading, text: str) -> None:
    for layer in range(int(text)):
        reading.overrides.append(Override(re.compile(rf"blk\.{layer}{_EXPERTS}"), True))


def _each(names: Iterable[str], action: Any) -> dict[str, Any]:
    return dict.fromkeys(names, action)


_FLAGS: dict[str, Callable[[_Reading], None]] = {
    **_each(("-cmoe", "--cpu-moe"), _all_experts),
    **_each(("--mmap",), _say("mmap", True)),
    **_each(("--no-mmap", "-dio", "--direct-io"), _say("mmap", False)),
    **_each(("--mlock",), _say("mlock", True)),
    **_each(("-nkvo", "--no-kv-offload"), _say("kv_offload", False)),
    **_each(("-kvo", "--kv-offload"), _say("kv_offload", True)),
}

_VALUES: dict[str, Callable[[_Reading, str], None]] = {
    **_each(("-ngl", "--gpu-layers", "--n-gpu-layers"), _read("gpu_layers", _gpu_layers)),
    **_each(("-ot", "--override-tensor"), _override),
    **_each(("-ncmoe", "--n-cpu-moe"), _experts_of_first),
    **_each(("-t", "--threads"), _read("threads", _threads)),
    **_each(("-c", "--ctx-size"), _read("context", int)),
    **_each(("-ctk", "--cache-type-k"), _read("cache_type_k", str.lower)),
    **_each(("-ctv", "--cache-type-v"), _read("cache_type_v", str.lower)),
    **_each(("-dev", "--device"), _device),
    **_each(("-lm", "--load-mode"), _load_mode),
    **_each(("--numa",), _read("numa", str)),
    **_each(("-m", "--model"), _read("model", str)),
}
