"""llama.cpp's HTTP server as a child process: `python -m detok_py.bridge.engines.recite_server
--model PATH`.

In: a GGUF file, and `stdin`, which the parent keeps open while it needs the engine.
Out: one line of JSON on `stdout`:
    {"port": 40123, "device": "CPU"}      ready, on 127.0.0.1; "device" only if the log names it
    {"error": "…"}                        could not start; one sentence; exit code 1
The engine's warnings and errors go to `stderr` unchanged. The process ends when `stdin` ends or its
parent is gone, so it never outlives the bridge that started it, even if the bridge is killed. It
ignores Ctrl-C, which reaches the whole process group, and leaves it to its parent.

If the environment has DETOK_ENGINE_KEY, every request needs `Authorization: Bearer <key>`. (Other
users could read a command line.) Without a key, any program of this machine can use the port, as
with llama.cpp's own server.

Why a child process: the engine is native code that does not use the bridge's event loop, holds the
GIL while it loads, and may abort.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

# The lowest verbosity at which llama.cpp logs its devices and buffers. At 5 it logs prompts.
_LOG_DEVICES = 4


def device_from_log(log: str) -> str | None:
    """Return the device that llama.cpp uses, in the words of its log, or None if the log does not
    say.

    A device that was detected counts only if it holds a buffer of the model. Source:
    `load_tensors`, `device_info` and `ggml_cuda_init` of llama.cpp.

    >>> device_from_log("load_tensors:   CPU_Mapped model buffer size =     0.87 MiB")
    'CPU'
    >>> print(
    ...     device_from_log('''device_info:
    ...   - ROCm0   : AMD Radeon AI PRO R9700 (32624 MiB, 32534 MiB free)
    ... Device 0: AMD Radeon AI PRO R9700, gfx1201 (0x1201), VMM: no, Wave Size: 32
    ... load_tensors: offloaded 33/33 layers to GPU
    ... load_tensors:   CPU_Mapped model buffer size =   281.81 MiB
    ... load_tensors:        ROCm0 model buffer size =  4403.49 MiB''')
    ... )
    ROCm0 AMD Radeon AI PRO R9700 (gfx1201) · 33/33 layers on GPU
    >>> device_from_log("loading model") is None
    True
    """
    buffers = re.findall(r"(\S+) model buffer size", log)
    if not buffers:
        return None
    names = dict(re.findall(r"-\s+(\S+)\s*: (.+?) \(\d+ MiB", log))
    targets = dict(re.findall(r"Device (\d+): .*?\b(gfx[0-9a-f]+)", log))
    # ROCm0_Split, CUDA_Host and CPU_Mapped are kinds of buffer. The device is the part before the
    # underscore.
    devices = list(
        dict.fromkeys(buffer.split("_")[0] for buffer in buffers if not buffer.endswith("_Host"))
    )
    accelerators = [device for device in devices if device != "CPU"]
    if not accelerators:
        return "CPU"
    said = []
    for device in accelerators:
        target = targets.get(device[len("ROCm") :]) if device.startswith("ROCm") else None
        said.append(
            " ".join(
                part for part in (device, names.get(device), target and "(" + target + ")") if part
            )
        )
    layers = re.findall(r"offloaded (\d+/\d+) layers to GPU", log)
    return " + ".join(said) + (" · " + layers[-1] + " layers on GPU" if layers else "")


def refusal_from_log(log: str, model: str) -> str:
    """Return one sentence that says why llama.cpp did not load `model`, with the reason from its
    log.

    >>> print(
    ...     refusal_from_log(
    ...         "E gguf_init_from_reader: invalid magic characters: 'garb', expected 'GGUF'",
    ...         "m.gguf",
    ...     )
    ... )
    llama.cpp could not load m.gguf: invalid magic characters: 'garb', expected 'GGUF'; give a
    complete GGUF file that this llama.cpp knows.
    """
    reasons = re.findall(r"\bE gguf_init\w*: (.+)", log) or re.findall(
        r"\bE \w+: error loading model: (.+)", log
    )
    reason = reasons[0].strip() if reasons else "the engine gave no reason"
    return f"llama.cpp could not load {model}: {reason}; give a complete GGUF file that this llama.cpp knows."


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="recite_server", description="llama.cpp's HTTP server on 127.0.0.1, until stdin ends"
    )
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        help="threads to compute with (default 1: the reciting model is small)",
    )
    parser.add_argument(
        "--parallel", type=int, default=4, help="generations at the same time (default 4)"
    )
    parser.add_argument("--port", type=int, default=0, help="default 0: a free one")
    return parser.parse_args(arguments)


def _start(options: argparse.Namespace) -> Any:
    # Imported here because its backends write to the log while they load.
    import xllamacpp as engine

    params = engine.CommonParams()
    params.model.path = options.model
    params.model_alias = [
        Path(options.model).stem
    ]  # the name in /v1/models; by default the whole path
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    params.n_parallel = options.parallel
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    params.verbosity = _LOG_DEVICES
    params.ui = False
    params.cache_ram_mib = 0  # the prompts have a few bytes; the default reserves up to 8 GB
    # By default, pages of any origin can read answers, and /slots shows all prompts.
    params.cors_origins = "http://127.0.0.1"
    params.endpoint_slots = False
    if os.environ.get("DETOK_ENGINE_KEY"):
        params.api_keys = [os.environ["DETOK_ENGINE_KEY"]]
    return engine.Server(params)


def _pass_on_warnings(log: int, stderr: int) -> None:
    """Copy warnings and errors from the engine's log to `stderr`, until the log ends."""
    with open(log, "rb") as lines, open(stderr, "wb", buffering=0) as out:
        for line in lines:
            # A slot warns each time a prompt is repeated, because all of it is in its cache.
            if re.match(rb"(\x1b\S*?m)?[\d.]+ (E|W(?! slot)) ", line):
                # If stderr is closed, go on reading: a full pipe would block the engine.
                with contextlib.suppress(OSError):
                    out.write(line)


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the engine, print its port, and wait for the end of stdin. Return the exit code."""
    options = _options(arguments)
    parent = os.getppid()
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    stderr = os.dup(2)

    def say(message: dict[str, Any]) -> None:
        answer.write(json.dumps(message, ensure_ascii=False) + "\n")
        answer.flush()

    if not Path(options.model).is_file():
        say({"error": f"there is no model at {options.model}; give the path of a GGUF file."})
        return 1
    # The engine logs to descriptor 2 from native code and holds the GIL while it loads, so no
    # thread could empty a pipe. Hence a file.
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        failure = None
        try:
            server = _start(options)
        except ImportError as error:
            failure = f"the embedded engine needs the package xllamacpp, which does not import here ({error}); install it with pip."
        except RuntimeError:
            failure = ""
        log.seek(0)
        said = log.read().decode("utf-8", "replace")
    if failure is not None:
        os.dup2(stderr, 2)
        say({"error": failure or refusal_from_log(said, options.model)})
        return 1
    reader, writer = os.pipe()
    os.dup2(writer, 1)
    os.dup2(writer, 2)
    os.close(writer)
    threading.Thread(target=_pass_on_warnings, args=(reader, stderr), daemon=True).start()

    if not sys.stdin.isatty():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    ended = threading.Event()

    def wait_for_end_of_stdin() -> None:
        while sys.stdin.buffer.read(4096):
            pass
        ended.set()

    threading.Thread(target=wait_for_end_of_stdin, daemon=True).start()
    ready: dict[str, Any] = {"port": urlsplit(server.listening_address).port}
    device = device_from_log(said)
    if device is not None:
        ready["device"] = device
    say(ready)
    while not ended.wait(1.0):
        if os.getppid() != parent:  # another process may still hold the other end of stdin
            break
    # The engine's destructor would wait for answers in progress, which nobody will read.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
