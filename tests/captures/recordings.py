"""What the tests of captures share: streams as servers and browsers write them, and how a page and
a reader show them.
"""

import base64
import json
from typing import Any

from page_rig import fill

from detok_py.captures import page


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def sse(*events: Any, escaped: bool = False) -> str:
    """Return the body of server-sent events; a string is the data of its event as it is."""
    lines = [
        one if isinstance(one, str) else json.dumps(one, ensure_ascii=escaped) for one in events
    ]
    return "".join(f"data: {line}\n\n" for line in lines) + "data: [DONE]\n\n"


def unended(*events: Any) -> str:
    """Return a body that stops without an end."""
    return sse(*events).removesuffix("data: [DONE]\n\n")


def delta(text: str) -> Any:
    return {"choices": [{"index": 0, "delta": {"content": text}}]}


def finish(reason: str) -> Any:
    return {"choices": [{"delta": {}, "finish_reason": reason}]}


def usage(total: int) -> Any:
    return {"choices": [], "usage": {"completion_tokens": total}}


def response(number: int, text: str) -> Any:
    """An event of OpenAI's responses."""
    return {"type": "response.output_text.delta", "sequence_number": number, "delta": text}


def whole(number: int, text: str) -> Any:
    return {"type": "response.output_text.done", "sequence_number": number, "text": text}


def tgi(text: str, all_: "str | None" = None) -> Any:
    details = None if all_ is None else {"finish_reason": "length", "generated_tokens": 3}
    return {"token": {"id": 7, "text": text}, "generated_text": all_, "details": details}


def har(*entries: Any, **log: Any) -> str:
    return json.dumps({"log": {**log, "entries": list(entries)}}, ensure_ascii=False, indent=1)


def body_har(text: str, **content: Any) -> str:
    """Return a HAR file with one body."""
    content = {"mimeType": "text/event-stream", "text": text, **content}
    return har({"request": {"url": "http://a/b"}, "response": {"content": content}})


def socket_har(*messages: "str | bytes", step: float = 1, sent: "str | None" = None) -> str:
    """Return a HAR file of a WebSocket that received messages, one each `step` seconds."""
    frames: list[Any] = [{"type": "send", "time": 1, "opcode": 1, "data": sent}] if sent else []
    for n, one in enumerate(messages):
        text = one if isinstance(one, str) else base64.b64encode(one).decode()
        opcode = 1 if isinstance(one, str) else 2
        frames.append({"type": "receive", "time": 1.5 + n * step, "opcode": opcode, "data": text})
    return har({"request": {"url": "ws://127.0.0.1/chat"}, "_webSocketMessages": frames})


def judged(data: "str | bytes", name: str = "a.file", sha256: "str | None" = None) -> Any:
    """Return what a page shows of a file."""
    data = data.encode() if isinstance(data, str) else data
    return json.loads(page.capture_rows(fill(data), name, sha256))


def shown(found: Any) -> str:
    """Return the text of the rows of a page."""
    return "".join(bytes.fromhex(row[1][1]).decode() for row in found["rows"])


def text_of(found: Any, channel: str = "content") -> str:
    """Return the text of a channel that a reader found, or else its tokens' bytes."""
    chunks = [chunk for chunk in found.chunks if chunk.channel == channel]
    pieces = [
        b"".join([data for _, data in chunk.tokens]) if chunk.data is None else chunk.data
        for chunk in chunks
    ]
    return b"".join(pieces).decode()
