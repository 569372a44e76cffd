"""Functions of a real engine that end in a jump to a seam: it returns to whoever called them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

# Writes to a tensor of the CPU's, where an engine has no way of its own to do it later:
# ggml_backend_tensor_set_async then jumps to ggml_backend_tensor_set.
SET_AND_GET = """
import ctypes as c, sys
engine, caller = c.CDLL(sys.argv[1]), c.CDLL(sys.argv[2] or None)
pointers = "ggml_backend_init_by_type", "ggml_init", "ggml_new_tensor_1d", "ggml_get_data"
for name in (*pointers, "ggml_backend_alloc_ctx_tensors"):
    getattr(engine, name).restype = c.c_void_p

class Params(c.Structure):
    _fields_ = [("bytes", c.c_size_t), ("memory", c.c_void_p), ("no_alloc", c.c_bool)]

backend = c.c_void_p(engine.ggml_backend_init_by_type(0, None))
context = c.c_void_p(engine.ggml_init(Params(1 << 16, None, True)))
tensor = c.c_void_p(engine.ggml_new_tensor_1d(context, 0, c.c_int64(64)))
assert engine.ggml_backend_alloc_ctx_tensors(context, backend)
length = c.c_size_t(256)
caller.ggml_backend_tensor_set_async(backend, tensor, b"w" * 256, c.c_size_t(0), length)
found = c.create_string_buffer(256)
engine.ggml_backend_tensor_get(tensor, found, c.c_size_t(0), length)
print(found.raw.decode().strip("\\0"))
"""


@pytest.mark.parametrize("who", ["ctypes", "the shim"])
def test_what_is_written_by_a_function_that_jumps_to_a_seam_arrives(who: str) -> None:
    """With the engine's own function, ctypes is where the jump returns to; with the shim's, which
    is first in the program's scope, the shim."""
    spec = importlib.util.find_spec("xllamacpp")
    if spec is None or spec.origin is None:
        pytest.skip("xllamacpp is not installed: pip install the extra `demo`")
    engine = str(next(Path(spec.origin).parent.glob("xllamacpp*.so")))
    script = [sys.executable, "-c", SET_AND_GET, engine, engine if who == "ctypes" else ""]
    run = [sys.executable, "-m", "numamirror_cli", "run", "--rehearse", "2", "--report", "none"]
    done = subprocess.run([*run, "--", *script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "w" * 256
