"""Drives llama-cpp-python, which calls llama.cpp's shared libraries by ctypes."""

from __future__ import annotations

import hashlib
from itertools import islice
from pathlib import Path

from driver import Generation, Options, parse_options, pause_after_warm_up, print_result
from llama_cpp import Llama


def load(options: Options, model: Path) -> Llama:
    return Llama(
        str(model),
        n_ctx=512,
        n_threads=options.threads,
        n_threads_batch=options.threads,
        use_mmap=options.mmap,
        logits_all=True,
        verbose=False,
    )


def generate(llama: Llama, options: Options) -> Generation:
    tokens: list[int] = []
    scores: list[str] = []
    prompt = llama.tokenize(options.prompt.encode())
    for token in islice(llama.generate(prompt, temp=0.0), options.n):
        logits = llama.scores[llama.n_tokens - 1]
        tokens.append(token)
        scores.append(hashlib.sha256(logits.tobytes()).hexdigest()[:16])
    return Generation(llama.detokenize(tokens).decode(errors="replace"), tokens, scores)


def main() -> None:
    options = parse_options(__doc__ or "")
    engines = [load(options, model) for model in options.models]
    for llama in engines:
        llama.create_completion(".", max_tokens=1)
    pause_after_warm_up(options)
    print_result("llama-cpp-python", [generate(llama, options) for llama in engines])


if __name__ == "__main__":
    main()
