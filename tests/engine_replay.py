"""An HTTP server that replays an engine's responses, cut at any byte, for tests of the adapters."""

import asyncio
import contextlib
import json

from tcp_server import TCPServer


class Answer:
    """A response: a status and a body, or a stream of events.

    `cut` is the number of bytes per write; 0 writes all at once. `then` is "end" (the body ends
    properly), "hang" (nothing more is sent) or "lost" (the connection is reset).
    """

    def __init__(
        self, body=b"", *, status=200, kind="application/json", cut=0, then="end", headers=()
    ):
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status, self.kind, self.cut, self.then, self.headers = status, kind, cut, then, headers


def events(*values, end="\n", done=False, cut=0, then="end", comments=False):
    """Return server-sent events; `end` is the line ending, `comments` adds keep-alives."""
    lines = []
    for value in values:
        if comments:
            lines.append(f": keep-alive{end}{end}")
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"data: {text}{end}{end}")
    if done:
        lines.append(f"data: [DONE]{end}{end}")
    return Answer("".join(lines).encode(), kind="text/event-stream", cut=cut, then=then)


def ndjson(*values, cut=0, then="end"):
    """Return newline-delimited JSON, as Ollama sends it."""
    return Answer(
        "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values).encode(),
        kind="application/x-ndjson",
        cut=cut,
        then=then,
    )


class Replay(TCPServer):
    """Serves `answers`: {(method, path): Answer, or a list of them used in turn}. A function
    instead of an Answer is called with the JSON of the request.

    `requests` has the (method, path, headers, body) of each request; `connections` counts the
    connections that were accepted.
    """

    def __init__(self, answers):
        self.answers = {
            key: list(value) if isinstance(value, list) else [value]
            for key, value in answers.items()
        }
        self.requests = []
        self.connections = 0
        self.closed_early = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def bodies(self, path):
        return [json.loads(body) for _, asked, _, body in self.requests if asked == path and body]

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._answer_request(reader, writer):
                    pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer_request(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, path, _ = first.split(" ")
        headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append((method, path, headers, body))
        queue = self.answers.get((method, path))
        answer = (
            Answer(b'{"error":"not found"}', status=404)
            if not queue
            else queue.pop(0)
            if len(queue) > 1
            else queue[0]
        )
        if callable(answer):
            answer = answer(json.loads(body))
        extra = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
        writer.write(
            f"HTTP/1.1 {answer.status} X\r\ncontent-type: {answer.kind}\r\ntransfer-encoding: chunked\r\n{extra}\r\n".encode()
        )
        step = answer.cut or max(1, len(answer.body))
        for at in range(0, len(answer.body), step):
            piece = answer.body[at : at + step]
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
            if answer.cut:
                await asyncio.sleep(0)
        if answer.then == "hang":
            if not await reader.read(1):
                self.closed_early += 1
            return False
        if answer.then == "lost":
            writer.transport.abort()
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True
