"""Drives any libllama by ctypes: shared libraries, with or without dlopen'ed CPU variants.

llama.h's parameter structs are passed by value and grow with each version. They are treated as
opaque here, larger than any of them: the callee reads its own part of what its
llama_*_default_params() filled in, and everything we set is set by a function.
"""

from __future__ import annotations

import ctypes as c
import hashlib
import os
import re
import sys
from array import array
from pathlib import Path

from driver import Generation, Options, parse_options, pause_after_warm_up, print_result


class Opaque(c.Structure):
    """Any of llama.h's parameter structs or batches; the largest has about 200 bytes."""

    _fields_ = [("content", c.c_uint64 * 128)]


SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "llama_backend_init": (None, []),
    "llama_model_default_params": (Opaque, []),
    "llama_model_load_from_file": (c.c_void_p, [c.c_char_p, Opaque]),
    "llama_model_get_vocab": (c.c_void_p, [c.c_void_p]),
    "llama_model_free": (None, [c.c_void_p]),
    "llama_context_default_params": (Opaque, []),
    "llama_init_from_model": (c.c_void_p, [c.c_void_p, Opaque]),
    "llama_free": (None, [c.c_void_p]),
    "llama_set_n_threads": (None, [c.c_void_p, c.c_int32, c.c_int32]),
    "llama_get_memory": (c.c_void_p, [c.c_void_p]),
    "llama_memory_clear": (None, [c.c_void_p, c.c_bool]),
    "llama_vocab_n_tokens": (c.c_int32, [c.c_void_p]),
    "llama_vocab_bos": (c.c_int32, [c.c_void_p]),
    "llama_tokenize": (
        c.c_int32,
        [c.c_void_p, c.c_char_p, c.c_int32, c.c_void_p, c.c_int32, c.c_bool, c.c_bool],
    ),
    "llama_token_to_piece": (
        c.c_int32,
        [c.c_void_p, c.c_int32, c.c_char_p, c.c_int32, c.c_int32, c.c_bool],
    ),
    "llama_batch_get_one": (Opaque, [c.c_void_p, c.c_int32]),
    "llama_decode": (c.c_int32, [c.c_void_p, Opaque]),
    "llama_get_logits_ith": (c.POINTER(c.c_float), [c.c_void_p, c.c_int32]),
}


def open_llama(engine_dir: Path) -> c.CDLL:
    """Opens libllama RTLD_LOCAL, as node.js and ollama do, and its CPU variants if it has any."""
    libraries = [p for p in engine_dir.iterdir() if re.fullmatch(LIBLLAMA_NAME, p.name)]
    if not libraries:
        sys.exit(f"{engine_dir}: no libllama here")
    os.environ["VK_LOADER_DRIVERS_DISABLE"] = "*"
    llama = c.CDLL(str(max(libraries, key=lambda p: len(p.name))))
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(llama, name)
        function.restype, function.argtypes = result, arguments
    llama.ggml_backend_load_all_from_path(os.fsencode(engine_dir))
    llama.llama_backend_init()
    return llama


LIBLLAMA_NAME = r"libllama(\.v\d+\.\d+\.\d+)?\.so(\.\d+)?"


class Model:
    """A loaded model with one context of llama.cpp's default 512 tokens."""

    def __init__(self, llama: c.CDLL, path: Path, threads: int) -> None:
        self.llama = llama
        params = llama.llama_model_default_params()
        self.model = llama.llama_model_load_from_file(os.fsencode(path), params)
        if not self.model:
            sys.exit(f"{path}: the engine cannot load it")
        self.vocab = llama.llama_model_get_vocab(self.model)
        self.context = llama.llama_init_from_model(self.model, llama.llama_context_default_params())
        llama.llama_set_n_threads(self.context, threads, threads)

    def warm_up(self) -> None:
        self.logits([self.llama.llama_vocab_bos(self.vocab)])
        self.llama.llama_memory_clear(self.llama.llama_get_memory(self.context), True)

    def generate(self, prompt: str, count: int) -> Generation:
        tokens: list[int] = []
        scores: list[str] = []
        batch = self.tokenize(prompt)
        for _ in range(count):
            logits = self.logits(batch)
            values = array("f", logits)
            batch = [values.index(max(values))]
            tokens += batch
            scores.append(hashlib.sha256(logits).hexdigest()[:16])
        return Generation("".join(map(self.piece, tokens)), tokens, scores)

    def tokenize(self, prompt: str) -> list[int]:
        text = prompt.encode()
        room = (c.c_int32 * (len(text) + 8))()
        count = self.llama.llama_tokenize(self.vocab, text, len(text), room, len(room), True, False)
        return list(room[:count])

    def piece(self, token: int) -> str:
        room = c.create_string_buffer(256)
        count = self.llama.llama_token_to_piece(self.vocab, token, room, len(room), 0, True)
        return room.raw[: max(count, 0)].decode(errors="replace")

    def logits(self, tokens: list[int]) -> bytes:
        """Decodes the tokens and returns the last one's logits: floats as bytes."""
        buffer = (c.c_int32 * len(tokens))(*tokens)
        status = self.llama.llama_decode(
            self.context, self.llama.llama_batch_get_one(buffer, len(tokens))
        )
        if status != 0:
            sys.exit(f"llama_decode failed with {status}")
        first = self.llama.llama_get_logits_ith(self.context, -1)
        return c.string_at(first, 4 * self.llama.llama_vocab_n_tokens(self.vocab))

    def free(self) -> None:
        self.llama.llama_free(self.context)
        self.llama.llama_model_free(self.model)


def run(options: Options, engine_dir: Path) -> list[Generation]:
    llama = open_llama(engine_dir)
    models = [Model(llama, path, options.threads) for path in options.models]
    for model in models:
        model.warm_up()
    pause_after_warm_up(options)
    generations = [model.generate(options.prompt, options.n) for model in models]
    for model in models:
        model.free()
    return generations


def main() -> None:
    options = parse_options(__doc__ or "")
    if options.engine_dir is None or not (options.mmap and options.repack):
        sys.exit("needs --engine-dir; --no-mmap and --no-repack have no function to set them")
    print_result("libllama", run(options, options.engine_dir))


if __name__ == "__main__":
    main()
