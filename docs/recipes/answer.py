"""Completes a prompt with llama.cpp inside this process: python3 answer.py MODEL.gguf [THREADS]."""

import os
import sys

import xllamacpp

model = sys.argv[1]
threads = int(sys.argv[2]) if len(sys.argv) > 2 else len(os.sched_getaffinity(0))

params = xllamacpp.CommonParams()
params.model.path = model
params.n_ctx = 512
params.n_gpu_layers = 0
params.fit_params = False
params.verbosity = 1
params.cpuparams.n_threads = threads
params.cpuparams_batch.n_threads = threads

server = xllamacpp.Server(params)
prompt = "The capital of France is"
answer = server.handle_completions({"prompt": prompt, "max_tokens": 12, "temperature": 0})
print(prompt + answer["choices"][0]["text"])
