"""Gradio's ChatInterface with an OpenAI-compatible engine.

In: `gradio_chat.py ENGINE`, the engine's address. Out: one line {"url": …} on stdout. `/client`
reads the engine with the `openai` package, as Gradio's guide does, `/detok` through ChatDeltas.
`/careless` is our faulty reader, which decodes each chunk by itself. The program ends when its
stdin is closed.
"""

import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

import gradio as gr
import httpx
import uvicorn
from fastapi import FastAPI
from openai import OpenAI

from detok_py.integrations.openai import ChatDeltas

ENGINE = sys.argv[1]
client = OpenAI(base_url=f"{ENGINE}/v1", api_key="none")


def with_client(message: str, history: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the answer so far, as in the guide's example."""
    answer = ""
    for event in client.chat.completions.create(
        model="recite", messages=[{"role": "user", "content": message}], stream=True, temperature=0
    ):
        answer += event.choices[0].delta.content or ""
        yield answer


def with_detok(message: str, history: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the answer so far, read through ChatDeltas."""
    answer = ""
    events = client.chat.completions.create(
        model="recite", messages=[{"role": "user", "content": message}], stream=True, temperature=0
    )
    for delta in ChatDeltas(events, stop=["</s>"]):
        answer += delta.text
        yield answer


def careless(message: str, history: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the answer so far, with each chunk decoded by itself."""
    body = {"messages": [{"role": "user", "content": message}], "stream": True, "temperature": 0}
    answer = line = ""
    with httpx.stream("POST", f"{ENGINE}/v1/chat/completions", json=body, timeout=60) as response:
        for chunk in response.iter_bytes():
            *lines, line = (line + chunk.decode("utf-8", errors="replace")).split("\n")
            for one in lines:
                if one.startswith("data: {"):
                    answer += json.loads(one[6:])["choices"][0]["delta"].get("content") or ""
                    yield answer


app = FastAPI()
for path, answer in (("/client", with_client), ("/detok", with_detok), ("/careless", careless)):
    app = gr.mount_gradio_app(app, gr.ChatInterface(answer), path=path)
sock = socket.create_server(("127.0.0.1", 0))
server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))


def end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


threading.Thread(target=end_with_stdin, daemon=True).start()
print(json.dumps({"url": f"http://127.0.0.1:{sock.getsockname()[1]}"}), flush=True)
server.run([sock])
