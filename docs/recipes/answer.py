"""Completes a prompt with llama.cpp inside this process. Knows nothing of NumaMirror."""

import argparse
import os

import xllamacpp

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("-m", "--model", required=True)
parser.add_argument("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)))
options = parser.parse_args()

params = xllamacpp.CommonParams()
params.model.path = options.model
params.n_ctx = 512
params.n_gpu_layers = 0
params.fit_params = False
params.verbosity = 1
params.cpuparams.n_threads = options.threads
params.cpuparams_batch.n_threads = options.threads

server = xllamacpp.Server(params)
prompt = "The capital of France is"
answer = server.handle_completions({"prompt": prompt, "max_tokens": 12, "temperature": 0})
print(prompt + answer["choices"][0]["text"])
