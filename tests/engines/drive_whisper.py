"""Drives whisper.cpp through pywhispercpp: ggml's shared libraries under a speech recognizer."""

from __future__ import annotations

import sys
from typing import Any

import _pywhispercpp as whisper
import whisper_model
from driver import Generation, Options, parse_options, pause_after_warm_up, print_result
from pywhispercpp.model import Model


def load(options: Options) -> Model:
    return Model(
        str(options.model),
        n_threads=options.threads,
        redirect_whispercpp_logs_to=sys.stderr,
        context_params={"use_gpu": False, "flash_attn": False},
    )


def transcribe(model: Model, tokens: int) -> Generation:
    """Greedily, without the second attempts that a text of no sense would cause."""
    segments = model.transcribe(
        whisper_model.audio(),
        temperature=0.0,
        temperature_inc=0.0,
        no_timestamps=True,
        single_segment=True,
        max_tokens=tokens,
    )
    context = model._ctx
    return Generation(
        text="".join(segment.text for segment in segments),
        tokens=[token.id for token in said(context)],
        scores=[token.p for token in said(context)],
    )


def said(context: Any) -> list[Any]:
    return [
        whisper.whisper_full_get_token_data(context, segment, index)
        for segment in range(whisper.whisper_full_n_segments(context))
        for index in range(whisper.whisper_full_n_tokens(context, segment))
    ]


def main() -> None:
    options = parse_options(__doc__ or "")
    model = load(options)
    transcribe(model, 1)
    pause_after_warm_up(options)
    print_result("whisper.cpp", [transcribe(model, options.n)])


if __name__ == "__main__":
    main()
