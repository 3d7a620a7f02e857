"""The streams that pass through the proxy, and the text in them.

In: the bytes of a stream as its server sent them. Out: the text in the engine's events.
"""

import codecs
import itertools
import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from ..captures.event_shapes import read_event
from ..protocol.sse import EventReader, LineReader
from .reads import Reads
from .recut import ProxyError, Recut

STREAMS = re.compile(
    r"text/event-stream|ndjson|jsonl|json-seq|stream\+json|vnd\.amazon\.eventstream", re.I
)
# These types are streams if a script fetches them, no length is given, and nothing says that they
# are files.
PERHAPS = re.compile(r"^(text/plain|application/octet-stream|application/json|)\s*(;|$)", re.I)
# Headers that files have, and answers that are still generated never have.
OF_FILES = ("etag", "last-modified", "accept-ranges", "content-range", "content-disposition")
# Loaders of files request these; answers are requested as any type, text, JSON or events.
MEDIA = re.compile(r"wasm|zip|(image|audio|video|font|model)/", re.I)
FILES = re.compile(
    r"\.(wasm|bin|data|zip|whl|gz|br|zst|tar|detok|gguf|onnx|safetensors|model|tiktoken|json"
    r"|[cm]?js|css|map|woff2?|ttf|otf|png|jpe?g|gif|webp|avif|svg|ico|mp[34]|pdf)$",
    re.I,
)
# The first bytes of files, which no text has: WebAssembly, zip, gzip, Zstandard, xz, PNG, PDF.
MAGIC = (
    b"\0asm", b"PK\3\4", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"\x89PNG", b"%PDF-",
)  # fmt: skip
LINES_OF_JSON = re.compile("ndjson|jsonl|json-seq|stream.json")
OF_TEXT = ("token", "text", "chunk", "delta", "message")  # in names of events of socket.io
PACKET = re.compile(r"42(?:/[^,]*,)?\d*(\[.*)", re.DOTALL)  # of socket.io 4, with its values
ENGINE_IO = re.compile(r"[?&]EIO=\d")  # in an address: packets, by polls and then by a WebSocket
# Plain-text events that keep a connection open, such as Gradio's heartbeat `data: ALIVE`, and the
# event that ends OpenAI's streams.
NO_TEXT = re.compile(r"\[DONE\]|(?i:alive|ping|pong|keep-?alive|heart-?beat)")


# Of messages in a request that no reader has written.
OTHER_ROLES = ("assistant", "model", "system", "developer", "tool")
MOST_ASKED = 65_536  # characters of a request; more are files


class _Utf8OrLatin:
    """Decodes UTF-8 whatever its header says, and in the encoding of the header from the first
    bytes on that are not UTF-8: servers that forget a charset often declare Latin-1.
    """

    def __init__(self, charset: str) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._declared = codecs.getincrementaldecoder(charset)("replace")
        self._is_utf8 = True

    def decode(self, data: bytes, final: bool = False) -> str:
        if self._is_utf8:
            held = self._utf8.getstate()[0]
            try:
                return self._utf8.decode(data, final)
            except UnicodeDecodeError:
                self._is_utf8, data = False, held + data
        return self._declared.decode(data, final)


def _decoder_of(content_type: str) -> Any:
    """Return what decodes a body of a content type."""
    charset = re.search(r"charset=\"?([\w-]+)", content_type)
    try:
        name = codecs.lookup(charset.group(1)).name if charset else "utf-8"
    except LookupError:
        name = "utf-8"
    is_latin = name in ("iso8859-1", "iso8859-15", "cp1252", "ascii")
    return _Utf8OrLatin(name) if is_latin else codecs.getincrementaldecoder(name)("replace")


class SentText:
    """Reads the text out of a stream: server-sent events, lines of JSON, JSON, or plain text.

    `text` is None if the stream has events, but none of a known shape (captures.event_shapes). Then
    the proxy does not know what was sent. `arrived` has each part of the text, and the time in
    milliseconds when it could be decoded. `halves` counts the events that begin or end inside a
    UTF-16 pair.

    >>> sent = SentText("text/event-stream")
    >>> sent.feed(b'data: {"choices": [{"delta": {"content": "h\\xc3')
    >>> sent.feed(b'\\xa9"}}]}\\n\\n')
    >>> sent.flush()
    >>> sent.text
    'hé'
    """

    def __init__(self, content_type: str, url: str = "") -> None:
        self._is_socket_io = bool(ENGINE_IO.search(url))
        self._reader: EventReader | LineReader | None = None
        if "event-stream" in content_type:
            self._reader = EventReader()
        elif LINES_OF_JSON.search(content_type):
            self._reader = LineReader()
        is_whole = "application/json" in content_type or self._is_socket_io
        self._document = "" if is_whole and not self._reader else None
        self.is_document: bool = self._document is not None
        self._decoder = _decoder_of(content_type)
        self.arrived: list[tuple[float, str]] = []
        self.halves: int = 0
        self._heard = self._understood = False

    def feed(self, data: bytes) -> None:
        if self._document is not None:
            self._document += self._decoder.decode(data)
        elif self._reader is None:
            self._add(self._decoder.decode(data))
        else:
            self._read(self._reader.feed(data))

    def flush(self) -> None:
        if self._document is not None:
            self._read_document(self._document + self._decoder.decode(b"", True))
        elif self._reader is None:
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
        elif self._is_socket_io or message.startswith('0{"sid"'):
            self._is_socket_io = self._heard = True
            self._packet(message)
        elif message[:1] in ("{", "["):
            self._event(message)
        elif not NO_TEXT.fullmatch(message.strip()):
            self._add(message)

    def _packet(self, packet: str) -> None:
        """Read a packet of socket.io 4: `42["token",{"text":"a"}]`. Those of other shapes, and the
        packets of engine.io, have no text.
        """
        found = PACKET.match(packet)
        try:
            name, *values = json.loads(found.group(1)) if found else [""]
        except ValueError:
            return
        for value in values:
            named = isinstance(value, str) and any(one in str(name) for one in OF_TEXT)
            text = text_of(value) if named or isinstance(value, dict) else None
            if text is not None:
                self._add(text)

    def _read(self, items: list[Any]) -> None:
        for item in items:
            # A record of a JSON sequence begins with 0x1E (RFC 7464).
            data = item.decode("utf-8", "replace") if isinstance(item, bytes) else item.data
            if data.strip("\x1e "):
                self._event(data.strip("\x1e ") if isinstance(item, bytes) else data)

    def _read_document(self, document: str) -> None:
        """Read an answer in JSON, as one value or one value per line, or packets of socket.io.
        Other JSON is data of the page.
        """
        self._document = ""
        if self._is_socket_io:  # a poll's answer: packets with 0x1E between them
            for packet in document.split("\x1e"):
                self._packet(packet)
            return
        try:
            values = [json.loads(document)]
        except ValueError:
            try:
                values = [json.loads(line) for line in document.splitlines() if line.strip()]
            except ValueError:
                return
        for value in values[0] if values and isinstance(values[0], list) else values:
            text = text_of(value) if isinstance(value, dict) else None
            self._add(text or "")

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
            self.halves += "\ud800" <= text[-1] <= "\udbff" or "\udc00" <= text[0] <= "\udfff"
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


def texts_of(request: str) -> list[str]:
    """Return the last lines of text in a request's body: of JSON those of its strings, else its
    own. What a model has said, and what instructs it, is left out.

    >>> texts_of('{"messages": [{"role": "user", "content": "two\\\\nlines"}]}')
    ['user', 'two', 'lines']
    """
    packet = PACKET.match(request)
    try:
        rest = [json.loads(packet.group(1) if packet else request)]
    except (ValueError, RecursionError):
        rest = [request]
    lines: list[str] = []
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            # Long ASCII without a space is a file in Base64.
            if len(value) < 1000 or " " in value or not value.isascii():
                lines += value.splitlines()
        elif isinstance(value, list):
            rest += reversed(value)
        elif isinstance(value, dict) and value.get("role") not in OTHER_ROLES:
            rest += reversed(list(value.values()))
    _keep_last(lines)
    return lines


def _keep_last(lines: list[str]) -> None:
    """Remove the first lines of more than one can keep."""
    while lines and sum(map(len, lines)) > MOST_ASKED:
        del lines[: len(lines) // 2 + 1]


def origin_of(address: str) -> str:
    """Return the origin of an address, spelled as in the address.

    >>> origin_of("http://127.0.0.1:3000/chat?a=1")
    'http://127.0.0.1:3000'
    """
    try:
        url = urlsplit(address)
        _ = url.port
    except ValueError:
        raise ProxyError(
            f"{address!r} has no usable host or port; write http://127.0.0.1:8080, for example."
        ) from None
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ProxyError(
            f"{address!r} is not an http address; write http://127.0.0.1:8080, for example."
        )
    return f"{url.scheme}://{url.netloc}"


def status_failure(url: str, status: int) -> str:
    """Return the sentence for an answer whose status is an error.

    >>> status_failure("http://127.0.0.1:8080/v1/chat/completions?key=1", 500)
    'http://127.0.0.1:8080/v1/chat/completions answered HTTP 500'
    """
    return f"{url.partition('?')[0]} answered HTTP {status}"


# The header in which the proxy numbers its streams, for reads.js.
STREAM_HEADER = "Detok-Stream"
_numbers = itertools.count(1)


class Answer:
    """One stream that was cut: its address, how many bytes in how many pieces, its text, which cuts
    its page saw (`reads`), and the texts of its request (`asked`).

    If bytes come that only a file has, it removes itself from the list `among`, and cuts nothing
    more.
    """

    def __init__(
        self,
        url: str,
        content_type: str,
        split: str = "none",
        among: "list[Answer] | None" = None,
        request: str = "",
    ) -> None:
        self.number: str = str(next(_numbers))
        self.reads: Reads = Reads()
        self.url = url
        self.content_type = content_type
        self.recut: Recut = Recut(split)
        self.bytes: int = 0
        self.pieces: int = 0
        self.sent: SentText = SentText(content_type, url)
        self.asked: list[str] = texts_of(request)
        self.finished = False
        self._among = among
        self._is_file = False
        # Bytes without a charset. In text with one, a byte 0 is a character.
        self._raw = bool(re.match(r"(application/octet-stream)?\s*$", content_type, re.I))
        self._framed = False

    def ask(self, message: str) -> None:
        """Note what a reader wrote in a further message of the page."""
        known = set(self.asked)
        self.asked += [line for line in texts_of(message) if line not in known]
        _keep_last(self.asked)

    def cut(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield the pieces to send, and whether to pause after each."""
        if self._is_file or self._begins_file(data):
            self._is_file = True
            if self._among and self in self._among:
                self._among.remove(self)
            yield data, False
            return
        self.bytes += len(data)
        for piece, pause in self.recut.feed(data):
            self.pieces += 1
            # Read piece by piece, so that each text has the time at which it is sent.
            self.sent.feed(piece)
            self.reads.sent(len(piece), pause)
            yield piece, pause

    def _begins_file(self, data: bytes) -> bool:
        """Return whether the next bytes can only be a file's."""
        if not self.bytes:
            if data.startswith(MAGIC):
                return True
            # Messages in binary frames begin with their length.
            self._framed = data.startswith(b"\0")
        return self._raw and not self._framed and 0 in data


class Traffic:
    """How streams are cut, and what has passed so far.

    `split` says where streams are cut, and `websocket` whether a message becomes several
    `fragments` or several `messages`. `answers` are the streams, without files, `problems` are
    sentences for the user, and `blind` has the hosts of encrypted connections, which are not cut.
    `failed` has a sentence for each answer to a script whose status is an error. `used` says
    whether anything was to pass here.
    """

    def __init__(self, split: str, delay: float, only: str | None, websocket: str) -> None:
        Recut(split)
        if websocket not in ("fragments", "messages"):
            raise ProxyError(
                f"A WebSocket is cut into fragments or into messages, not into {websocket!r}."
            )
        try:
            self.only: re.Pattern[str] | None = re.compile(only) if only else None
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
        self.failed: list[str] = []
        self.used: bool = False

    def begin(self, url: str, content_type: str, request: str = "") -> Answer:
        """Add a new answer to `answers`, and return it. `request` is the body of its request."""
        answer = Answer(url, content_type, self.split, self.answers, request)
        self.answers.append(answer)
        return answer

    def note_status(self, url: str, status: int, request: Mapping[str, str]) -> None:
        """Note the status of an answer. An error counts if a script or a server has asked."""
        self.used = True
        if status >= 400 and request.get("sec-fetch-dest", "empty") == "empty":
            self.failed.append(status_failure(url, status))

    def headers(self, answer: Answer) -> list[tuple[str, str]]:
        """Return the headers that tell a page's reads.js which stream this is."""
        if self.split == "none":
            return []
        # Scripts of another origin see only the headers that the second one names.
        return [
            (STREAM_HEADER, answer.number),
            ("Access-Control-Expose-Headers", STREAM_HEADER),
        ]

    def read(self, message: dict[str, Any]) -> str:
        """Take a message of reads.js, and return the answer in JSON: the cuts inside of a chunk,
        or nothing if the stream is not cut.
        """
        for answer in self.answers:
            if answer.number == message["stream"]:
                answer.reads.got(message.get("ends", ()))
                begin, end = message.get("within", (0, 0))
                found = answer.reads.cuts_within(begin, end)
                return json.dumps({"cuts": found})
        return "{}"

    def is_stream(self, url: str, request: Mapping[str, str], answer: Mapping[str, str]) -> bool:
        """Return whether an answer is a stream that is to be cut, by its address and both headers.

        An answer with a stream's type is a stream. So are text, JSON and bytes of unknown length
        that a script or a server requested, unless a header says that they are a file.

        >>> traffic = Traffic("token", 0, None, "messages")
        >>> traffic.is_stream("http://a/b", {"accept": "*/*"}, {"content-type": "text/plain"})
        True
        >>> traffic.is_stream("http://a/b.wasm", {}, {"content-type": "application/octet-stream"})
        False
        """
        if self.only:
            return bool(self.only.search(url))
        kind = answer.get("content-type", "")
        if STREAMS.search(kind):
            return True
        return not (
            not PERHAPS.search(kind)
            or request.get("sec-fetch-dest", "empty") != "empty"
            or MEDIA.search(request.get("accept", ""))
            or "content-length" in answer
            or any(name in answer for name in OF_FILES)
            or "immutable" in answer.get("cache-control", "")
            or FILES.search(urlsplit(url).path)
        )

    @property
    def sent_text(self) -> str | None:
        """The text of all streams so far, in their order. None if no text could be read."""
        texts = [answer.sent.text for answer in self.answers]
        return "\n".join([text for text in texts if text]) or None
