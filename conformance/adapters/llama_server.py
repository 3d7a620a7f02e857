"""llama.cpp's server, from the wheel of xllamacpp: the model of conformance/http/ says the ids.

Its events tell how many tokens came, so each push gets what the server sent by then.
"""

import atexit
import functools
import importlib.metadata
import importlib.util
import json
import tempfile
import urllib.request
from pathlib import Path

import xllamacpp

SYSTEM = f"llama.cpp (xllamacpp {importlib.metadata.version('xllamacpp')}), llama-server"
PURPOSE = "the text of an answer over HTTP, with stop strings, by the bytes of its tokens"
HTTP = Path(__file__).resolve().parents[1] / "http" / "make_model.py"


@functools.cache
def maker():
    spec = importlib.util.spec_from_file_location(HTTP.stem, HTTP)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def served():
    """Return a server with the model, and the length of the prompt of each case that it has."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    suite = json.loads((HTTP.parents[1] / "cases.json").read_text("utf-8"))
    script = maker().write(Path(folder.name), suite)
    params = xllamacpp.CommonParams()
    params.model.path = str(Path(folder.name, "script.gguf"))
    params.hostnames, params.port, params.n_parallel = ["127.0.0.1"], 0, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_ram_mib, params.ui, params.verbosity = 0, False, 0
    server = xllamacpp.Server(params)
    return server, script.prompts


class Answer:
    def __init__(self, events):
        self.events, self.count = events, 0

    def push(self, ids):
        self.count += len(ids)
        return self.until(self.count)

    def flush(self):
        return self.until(1 << 30)

    def until(self, count):
        there = [event for event in self.events if event["tokens_predicted"] <= count]
        self.events = self.events[len(there) :]
        return "".join([event["content"] for event in there])


def adapter(case):
    server, prompts = served()
    if case["id"] not in prompts:
        return None
    most = case.get("options", {}).get("max_tokens", len(maker().pushes(case)) + 1)
    body = {"prompt": [120] * prompts[case["id"]], "n_predict": most, "stream": True}
    body |= {"temperature": 0, "stop": case.get("options", {}).get("stop", [])}
    request = urllib.request.Request(
        f"{server.listening_address}/completion", json.dumps(body).encode()
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as answer:
        events = [json.loads(line[6:]) for line in answer if line.startswith(b"data: ")]
    return Answer(events)
