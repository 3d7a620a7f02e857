from pyscript import WebSocket, document, window

from detok_py import StreamingDetokenizer
from detok_py.protocol import client, events

at, decoder, session = document.getElementById, StreamingDetokenizer(), client.ClientSession()
bridge = window.URLSearchParams.new(window.location.search).get("bridge")
session.generate(prompt="hello: ", want="bytes")


def receive(frame):
    for event in session.receive(frame.data if isinstance(frame.data, str) else bytes(frame.data)):
        at("content").append(decoder.feed(event.data) if isinstance(event, events.Bytes) else "")
        if isinstance(event, events.Finished):
            at("status").textContent = "Finished."
    for reply in session.frames():
        socket.send(reply)


socket = WebSocket(bridge or "ws://127.0.0.1:8765/stream", "detok.v1", onmessage=receive)
