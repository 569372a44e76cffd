"""Completes a prompt with llama.cpp inside this process. Knows nothing of NumaMirror."""

import argparse
import os
import sys

import xllamacpp

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("-m", "--model", required=True)
parser.add_argument("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)))
parser.add_argument("--stay", action="store_true", help="Stay until standard input ends.")
parser.add_argument("-n", "--predict", type=int, default=12, help="Tokens of the answer.")
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
request = {
    "prompt": "The capital of France is",
    "max_tokens": options.predict,
    "temperature": 0,
}
answer = server.handle_completions(request)
print(request["prompt"] + answer["choices"][0]["text"], flush=True)
if options.stay:
    sys.stdin.read()
