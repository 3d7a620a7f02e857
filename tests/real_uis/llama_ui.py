"""llama.cpp's own web UI, from the server in xllamacpp, with the reciting model.

In: `llama_ui.py MODEL`. Out: one line {"url": …} on stdout. The program ends when its stdin is
closed.
"""

import json
import os
import sys

import xllamacpp as engine

params = engine.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_parallel = 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.cache_ram_mib = 0
params.ui = True
server = engine.Server(params)
print(json.dumps({"url": server.listening_address}), flush=True)
sys.stdin.buffer.read()
os._exit(0)
