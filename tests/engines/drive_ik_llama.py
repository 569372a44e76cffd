"""Drives ik_llama.cpp through its Python package: one library, its own GEMM and tensor layout."""

from __future__ import annotations

import ctypes
import hashlib
from pathlib import Path

from driver import Generation, Options, parse_options, pause_after_warm_up, print_result
from ik_llama_cpp import IkLlama as Llama


def load(options: Options, model: Path) -> Llama:
    return Llama(
        str(model), n_ctx=512, n_threads=options.threads, use_mmap=options.mmap, verbose=False
    )


def digest(llama: Llama) -> str:
    """Of the last token's logits: it changes with the last bit of any sum."""
    logits = llama._context.get_logits()
    values = (ctypes.c_float * llama._model.n_vocab).from_address(ctypes.addressof(logits.contents))
    return hashlib.sha256(bytes(values)).hexdigest()[:16]


def generate(llama: Llama, options: Options) -> Generation:
    scores: list[str] = []
    decode = llama._context.decode

    def decode_and_note(batch: object) -> int:
        status: int = decode(batch)
        scores.append(digest(llama))
        return status

    llama._context.decode = decode_and_note
    tokens = llama.generate(llama.tokenize(options.prompt), max_tokens=options.n, temperature=0.0)
    return Generation(llama.detokenize(tokens), tokens, scores[: len(tokens)])


def main() -> None:
    options = parse_options(__doc__ or "")
    engines = [load(options, model) for model in options.models]
    for llama in engines:
        llama.generate(llama.tokenize("."), max_tokens=1)
    pause_after_warm_up(options)
    print_result("ik_llama.cpp", [generate(llama, options) for llama in engines])


if __name__ == "__main__":
    main()
