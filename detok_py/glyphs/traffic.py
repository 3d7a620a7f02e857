"""The streams that pass through the proxy, and the text in them.

In: the bytes of a stream as its server sent them. Out: the text that the engine meant.
"""

import codecs
import json
import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from ..protocol.event_shapes import read_event
from ..protocol.sse import EventReader, LineReader
from .recut import ProxyError, Recut

STREAMS = re.compile(
    r"text/event-stream|ndjson|jsonl|json-seq|stream\+json|vnd\.amazon\.eventstream", re.I
)
# These types are streams if a script fetches them and no length is given.
PERHAPS = re.compile(
    r"^(text/plain|application/octet-stream|application/json|application/x-detok|)\s*(;|$)", re.I
)
LINES_OF_JSON = re.compile("ndjson|jsonl|json-seq|stream.json")
# Plain-text events that keep a connection open, such as Gradio's heartbeat `data: ALIVE`, and the
# event that ends OpenAI's streams.
NO_TEXT = re.compile(r"\[DONE\]|(?i:alive|ping|pong|keep-?alive|heart-?beat)")


class SentText:
    """Reads the text out of a stream: server-sent events, lines of JSON, or plain text.

    `text` is None if the stream has events, but none of a known shape (protocol.event_shapes). Then
    the proxy does not know what was sent. `arrived` has each part of the text, and the time in
    milliseconds when it could be decoded.

    >>> sent = SentText("text/event-stream")
    >>> sent.feed(b'data: {"choices": [{"delta": {"content": "h\\xc3'); sent.feed(b'\\xa9"}}]}\\n\\n'); sent.flush(); sent.text
    'hé'
    """

    def __init__(self, content_type: str) -> None:
        self._reader: EventReader | LineReader | None = None
        if "event-stream" in content_type:
            self._reader = EventReader()
        elif LINES_OF_JSON.search(content_type):
            self._reader = LineReader()
        charset = re.search(r"charset=\"?([\w-]+)", content_type)
        try:
            decoder = codecs.getincrementaldecoder(charset.group(1) if charset else "utf-8")
        except LookupError:
            decoder = codecs.getincrementaldecoder("utf-8")
        self._decoder = decoder("replace")
        self.arrived: list[tuple[float, str]] = []
        self._heard = self._understood = False

    def feed(self, data: bytes) -> None:
        if self._reader is None:
            self._add(self._decoder.decode(data))
        else:
            self._read(self._reader.feed(data))

    def flush(self) -> None:
        if self._reader is None:
            self._add(self._decoder.decode(b"", True))
        else:
            self._read(self._reader.flush())

    @property
    def text(self) -> str | None:
        """The text so far. The halves of a surrogate pair in two events are one character."""
        if self._heard and not self._understood:
            return None
        text = "".join([part for _, part in self.arrived])
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")

    def message(self, message: str | None) -> None:
        """Read one whole message of a WebSocket; None is a binary message of an unknown format."""
        if message is None:
            self._heard = True
        elif message[:1] in ("{", "["):
            self._event(message)
        elif not NO_TEXT.fullmatch(message.strip()):
            self._add(message)

    def _read(self, items: list[Any]) -> None:
        for item in items:
            # A record of a JSON sequence begins with 0x1E (RFC 7464).
            data = item.decode("utf-8", "replace") if isinstance(item, bytes) else item.data
            if data.strip("\x1e "):
                self._event(data.strip("\x1e ") if isinstance(item, bytes) else data)

    def _event(self, data: str) -> None:
        if NO_TEXT.fullmatch(data.strip()):
            return
        prefixed = re.match(r'0:(".*")$', data)  # the AI SDK's first stream format
        try:
            text = text_of(json.loads(prefixed.group(1) if prefixed else data))
        except ValueError:
            # An event of plain text. If it looks like JSON, its shape is unknown.
            text = None if data.startswith(("{", "[", "b'")) else data
        self._heard = True
        if text is not None:
            self._add(text)
            self._understood = True

    def _add(self, text: str) -> None:
        if text:
            self._heard = self._understood = True
            self.arrived.append((time.time() * 1000, text))


def text_of(value: Any) -> str | None:
    """Return the text of one event, or None if its shape is unknown.

    >>> text_of({"message": {"role": "assistant", "content": "hi"}}), text_of({"usage": {}})
    ('hi', None)
    """
    if isinstance(value, str):
        return value
    said = read_event(value)
    return None if said is None else str(said.text)


def origin_of(address: str) -> str:
    """Return the origin of an address, as it is written there.

    >>> origin_of("http://127.0.0.1:3000/chat?a=1")
    'http://127.0.0.1:3000'
    """
    url = urlsplit(address)
    try:
        _ = url.port
    except ValueError:
        raise ProxyError(
            f"{address!r} has no usable port; write http://127.0.0.1:8080, for example."
        ) from None
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ProxyError(
            f"{address!r} is not an http address; write http://127.0.0.1:8080, for example."
        )
    return f"{url.scheme}://{url.netloc}"


class Answer:
    """One stream that was cut: its address, how many bytes in how many pieces, and its text."""

    def __init__(self, url: str, content_type: str, split: str = "none") -> None:
        self.url = url
        self.content_type = content_type
        self.recut = Recut(split)
        self.bytes = self.pieces = 0
        self.sent = SentText(content_type)
        self.finished = False

    def cut(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield the pieces of what came, each with whether to pause after it."""
        self.bytes += len(data)
        for piece, pause in self.recut.feed(data):
            self.pieces += 1
            # Piece by piece, so that the time is when it is sent.
            self.sent.feed(piece)
            yield piece, pause


class Traffic:
    """How streams are cut, and what has passed so far.

    `split` says where streams are cut, and `websocket` whether a message becomes several `fragments`
    or several `messages`. `answers` are the streams, `problems` are sentences for the user, and `blind` has the hosts of
    encrypted connections, which are not cut.
    """

    def __init__(self, split: str, delay: float, only: str | None, websocket: str) -> None:
        Recut(split)
        if websocket not in ("fragments", "messages"):
            raise ProxyError(
                f"A WebSocket is cut into fragments or into messages, not into {websocket!r}."
            )
        try:
            self.only = re.compile(only) if only else None
        except re.error as error:
            raise ProxyError(
                f"{only!r} is not a regular expression: {error}; write --only '/v1/', for example."
            ) from None
        self.split = split
        self.delay = delay
        self.websocket = websocket
        self.answers: list[Answer] = []
        self.problems: list[str] = []
        self.blind: set[str] = set()

    def begin(self, url: str, content_type: str) -> Answer:
        """Return a new answer, which is listed from now on."""
        answer = Answer(url, content_type, self.split)
        self.answers.append(answer)
        return answer

    def is_stream(self, url: str, content_type: str, fetched: bool, has_length: bool) -> bool:
        """Return whether an answer is a stream that is to be cut.

        `fetched` says whether a script or a server asked for it.

        >>> Traffic("token", 0, None, "messages").is_stream("/a", "text/plain", True, False)
        True
        """
        if self.only:
            return bool(self.only.search(url))
        if STREAMS.search(content_type):
            return True
        return fetched and not has_length and bool(PERHAPS.search(content_type))

    @property
    def sent_text(self) -> str | None:
        """The text of all streams so far, in their order. None if no text could be read."""
        texts = [answer.sent.text for answer in self.answers]
        return "\n".join([text for text in texts if text]) or None
