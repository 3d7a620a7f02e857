import micropip
from js import WebSocket, document, location
from pyodide.ffi.wrappers import add_event_listener

await micropip.install("detok_py", index_urls=location.origin + "/wheels/simple")
from detok_py import StreamingDetokenizer
from detok_py.protocol import client, events

session, decoder = client.ClientSession(), StreamingDetokenizer()
output = document.getElementById("content")
session.generate(prompt="hello: ", want="bytes")
socket = WebSocket.new(f"ws://{location.host}/stream", "detok.v1")
socket.binaryType = "arraybuffer"


def receive(frame):
    for event in session.receive(getattr(frame.data, "to_bytes", lambda: frame.data)()):
        output.append(decoder.feed(event.data) if isinstance(event, events.Bytes) else "")
    for reply in session.frames():
        socket.send(reply)


add_event_listener(socket, "message", receive)
