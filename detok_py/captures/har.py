"""The stream in a HAR file: of a socket, or of a body (HAR 1.2, `content`).

In: the value of a HAR file. Out: an `Import` (imported.py). Browsers save the frames of a WebSocket
as `_webSocketMessages`: text as it is, binary data in base64.
"""

from typing import Any

from ..errors import CaptureError
from ..protocol import wire
from .capture import EVENT, frames_of
from .event_shapes import find, is_text
from .hubs import of_messages, plain_bytes
from .imported import (
    NO_FACTS,
    REPLACED,
    Chunk,
    Import,
    fidelity,
    inside,
    with_note,
    with_problems,
    with_told,
)
from .log import DONE, LoggedEvent, Problem
from .notes import note_of_size
from .order import quoted
from .parse import base64_bytes, object_at, parse_json
from .rules import SIZE
from .sentence import MESSAGES
from .servers import CONTENT, LOST
from .stream import NO_TEXT, UNKNOWN, of_events, of_records
from .times import since_first

MOST_TIMES, LEAST_CUT = 2, 200  # as UTF-16 has of ASCII, and more
KINDS = ("event-stream", "eventstream", "json")  # in the MIME types of streams
GENERAL = ("text/plain", "octet-stream", "x-unknown")  # in those of other streams
MOST_OF_HEAD = 1 << 16  # bytes in which JSON of a general type has a key of a text, or one of these
KEYS = (b"choices", b"candidates", b"message", b"token_ids", b"output_ids", b"detok")
BEGINS = (b"data:", b"event:", b"id:", b"retry:", b":", b"{", b"[", b"\0")  # of streams
CHROME = "WebInspector"  # and Edge
GZIP = b"\x1f\x8b"
LEAST_HEX = 8  # digits of a body that is read as hex
ANSWERED = " answered HTTP "
MESSAGE = "error.message|error|message|detail"
AS_TEXT = "its binary messages were saved as text, which breaks them"
BODY = "the response body"


def of_har(har: Any, file: str, read: Any, wanted: int = 0) -> Any:
    """Return the stream in an entry of a HAR file, from 1; for 0, the first stream. `read` reads a
    body. The header's "entries" has the number and the address of each stream. A socket whose
    messages are not events counts only if there is nothing else: it may be the page's own.
    """
    entries = har["log"].get("entries")
    if not isinstance(entries, list):
        raise CaptureError("not a HAR file: it has no log.entries.")
    found = None
    problems: list[Any] = []
    streams: list[Any] = []
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            continue
        where = f"entry {number} ({_url(entry)})"
        try:
            stream = _of_entry(entry, file, read)
        except CaptureError as error:
            problems.append(Problem(0, f"{where}: {error}"))
            continue
        if stream is None:
            continue
        streams.append([number, _url(entry)])
        if number == wanted or (found is None and not wanted):
            found = stream
            found.header["source"]["entry"] = number
    for entry in entries if found is None else ():
        received = _received(entry.get("_webSocketMessages")) if isinstance(entry, dict) else []
        try:
            of_hub = of_messages([one[:3] for one in received], file, "HAR, ")
            found = found or (_by_messages(of_hub) if of_hub else _of_pieces(received, file))
        except CaptureError as error:
            problems.append(Problem(0, str(error)))
    if found is None:
        first = " ".join(_failures(entries) or [one.reason for one in problems[:1]])
        said = any(one in first for one in (ANSWERED, AS_TEXT))  # why it has no stream
        advice = "; open the developer tools before the stream starts, and save it again with its content"
        # An answer without text would be the same then.
        if NO_TEXT in first:
            raise CaptureError(f"this HAR file has the stream of an answer without text. {first}")
        raise CaptureError(
            f"this HAR file has no stream of an engine{'' if said else advice}. {first}".strip()
        )
    found.header["entries"] = streams
    browser = object_at(har, "log", "creator").get("name")
    number = found.header["source"].get("entry", 0)
    timings = _timings(entries[number - 1]) if number else ""
    if timings:
        found.header["source"]["timings"] = timings
    if number:
        known, note = _on_size(entries[number - 1], browser == CHROME)
        found = with_told(with_note(found, note), SIZE, known)
    failed = object_at(entries[number - 1], "response").get("_error") if number else None
    if isinstance(failed, str) and failed:
        found = with_note(found, f"The browser says of its entry: “{quoted(failed)}”.")
    return with_problems(found, problems)


def _timings(entry: Any) -> str:
    """Return how long a HAR file says that an entry took, in ms; "" if it does not say.

    >>> _timings({"time": 1932.64, "timings": {"wait": 611.3, "receive": 1318, "ssl": -1}})
    'wait 611.3 ms, receive 1318 ms, 1932.6 ms in all'
    """
    timings = object_at(entry, "timings")
    times = [(f"{name} ", timings.get(name), "") for name in ("wait", "receive")]
    times.append(("", entry.get("time"), " in all"))
    said = []
    for before, time, after in times:
        if isinstance(time, (int, float)) and time > 0:
            rounded = f"{round(time, 1):g}" if time < 1e5 else str(round(time))
            said.append(f"{before}{rounded} ms{after}")
    return ", ".join(said)


def _on_size(entry: Any, by_chrome: bool) -> tuple[str, str]:
    """Return what follows from the size of an entry's body, if its text is there as it is, as
    `note_of_size` does. Other tools may count characters, or the text that they have decoded.
    """
    content = object_at(entry, "response", "content")
    text = content.get("text")
    if not isinstance(text, str) or content.get("encoding") == "base64":
        return "", ""
    size = content.get("size")
    count = len(text.encode("utf-8", "replace"))
    # No encoding explains so many.
    if type(size) is int and size > MOST_TIMES * count + LEAST_CUT:
        return "", f"The HAR counts {size} bytes of its body, and has {count} of them here."
    return note_of_size(size, text) if by_chrome else ("", "")


def _failures(entries: list[Any]) -> list[str]:
    """Return a sentence on the first answer of a server that is an error."""
    for number, entry in enumerate(entries, 1):
        answer = object_at(entry, "response")
        status = answer.get("status")
        if type(status) is not int or status < 400:
            continue
        if object_at(entry, "request").get("method") != "POST":
            continue  # a picture, or the page's own
        text = object_at(answer, "content").get("text")
        said = find(_json_in(text.encode(), 1) if isinstance(text, str) else None, MESSAGE)
        words = f": “{quoted(said[0])}”" if said and isinstance(said[0], str) else ""
        return [f"Entry {number} ({_url(entry)}){ANSWERED}{status}{words}."]
    return []


def of_bodies(value: Any, file: str, read: Any) -> Any:
    """Return the first stream that a cell of a Jupyter notebook (nbformat 4) printed, or that is in
    a response that nock, WireMock or Charles recorded; None for other values.
    """
    where, packed = BODY, 0
    bodies: list[Any]
    first = object_at(value[0]) if isinstance(value, list) and value else {}
    stubs = value.get("mappings", [value]) if isinstance(value, dict) else None
    if isinstance(object_at(value).get("cells"), list):
        where = "what the cell printed"
        form, bodies = "Jupyter notebook, cell", [_printed(cell) for cell in value["cells"]]
    elif "scope" in first:
        records = [one for one in value if isinstance(one, dict)]
        form, bodies = "nock, response", [_of_hex(one.get("response")) for one in records]
    elif "durations" in first:
        form, bodies = "Charles, response", [_of_charles(one) for one in value]
    elif isinstance(stubs, list) and any(_is_stub(stub) for stub in stubs):
        form, bodies = "WireMock, response", [_stubbed(stub) for stub in stubs]
    else:
        return None
    for number, body in enumerate(bodies, 1):
        if isinstance(body, bytes) and body[:2] == GZIP:
            packed = number
        try:
            body = plain_bytes(body) if isinstance(body, str) else body
            found = read(body, file) if isinstance(body, bytes) else None
        except CaptureError:
            continue
        if found:
            source = found.header["source"]
            source["format"] = f"{form} {number}, " + source["format"]
            return inside(found, where)
    if packed:
        raise CaptureError(
            f"the body of response {packed} in this recording is gzip, written in hex: record it "
            "from a request with `Accept-Encoding: identity`."
        )
    return None


def _of_charles(one: Any) -> Any:
    """Return the body of a response in a session that Charles has saved as JSON."""
    body = object_at(one, "response", "body")
    coded = body.get("encoded")
    return base64_bytes(coded) if isinstance(coded, str) else body.get("text")


def _of_hex(body: Any) -> Any:
    """Return the bytes of a body that nock wrote in hex, whole or as a list of its chunks; others
    as they are.

    >>> _of_hex(["64617461", "3a"]), _of_hex("data:")
    (b'data:', 'data:')
    """
    parts = body if isinstance(body, list) else [body]
    if not all(isinstance(part, str) for part in parts):
        return body
    said = "".join(parts)
    if len(said) < LEAST_HEX or any(c not in "0123456789abcdef" for c in said) or len(said) % 2:
        return body
    return bytes.fromhex(said)


def _is_stub(value: Any) -> bool:
    """Return whether a value is a stub of WireMock, which has what it answers to a request."""
    known = object_at(value)
    return all(isinstance(known.get(name), dict) for name in ("request", "response"))


def _stubbed(stub: Any) -> "str | None":
    """Return the text of a stub's response; None if it has none."""
    response = stub["response"] if _is_stub(stub) else {}
    body, coded = response.get("body"), response.get("base64Body")
    if isinstance(coded, str):
        try:
            return base64_bytes(coded).decode()
        except ValueError:
            return None  # a picture, say
    return body if isinstance(body, str) else None


def _printed(cell: Any) -> str:
    """Return what a cell of a notebook printed."""
    outputs = object_at(cell).get("outputs")
    listed = outputs if isinstance(outputs, list) else []
    texts = [object_at(one).get("text") for one in listed]
    pieces = [piece for text in texts for piece in (text if isinstance(text, list) else [text])]
    return "".join([piece for piece in pieces if isinstance(piece, str)])


def _of_entry(entry: Any, file: str, read: Any) -> Any:
    """Return the stream of an entry; None if it has none."""
    messages = entry.get("_webSocketMessages")
    if messages:
        records = frames_of(messages)
        if records:
            hello = records[0].value if records[0].kind == EVENT else {}
            header: dict[str, Any] = {"detok": 1, "protocol": wire.SUBPROTOCOL}
            for name in ("engine", "vocabulary"):
                if name in hello:
                    header[name] = hello[name]
            return inside(of_records(header, records, file, "HAR, detok.v1 socket", 1), MESSAGES)
        return _of_messages(messages, file)
    content = object_at(entry, "response", "content")
    text = content.get("text")
    kind = str(content.get("mimeType") or "")
    said = _of_event_source(entry.get("_eventSourceMessages"), text, file)
    if said:
        return said
    is_declared = "event-stream" in kind or "ndjson" in kind
    if not isinstance(text, str) or not text:
        if is_declared:
            raise CaptureError("its body was not saved")
        return None
    of_stream = text[:5] in ("data:", "event") or any(part in kind for part in KINDS)
    if not of_stream and kind and not any(part in kind for part in GENERAL):
        return None
    if "amazon.eventstream" in kind and content.get("encoding") != "base64":
        raise CaptureError(f"{AS_TEXT}; a recorder must save them as base64")
    data = base64_bytes(text) if content.get("encoding") == "base64" else plain_bytes(text)
    if not of_stream and not (data.startswith(BEGINS) or data[1:2] == b":"):  # as the AI SDK has it
        return None
    if not of_stream and data[:1] in (b"{", b"[") and not _may_have_text(data[:MOST_OF_HEAD]):
        return None  # data or code, which can be large
    try:
        stream = read(data, file)
    except CaptureError:
        if is_declared:
            raise
        return None  # one of the page's other requests
    named = stream.header["source"]["server"] != UNKNOWN
    if not named and not is_declared and data[:1] in (b"[", b"{"):
        return None
    stream.header["source"]["format"] = "HAR, " + stream.header["source"]["format"]
    return stream if stream.facts.lines == MESSAGES else inside(stream, BODY)


def _may_have_text(head: bytes) -> bool:
    """Return whether JSON, or a printed value, has a key of a text in its head.

    >>> _may_have_text(b'[{"delta": '), _may_have_text(b"{'text': "), _may_have_text(b"{ f('x')")
    (True, True, False)
    """
    return any(is_text(key) or key in KEYS for key in head.replace(b"'", b'"').split(b'"'))


def _of_messages(messages: Any, file: str) -> Any:
    """Return the stream of a socket whose messages are events in JSON, also binary ones; None if
    they are not.
    """
    events = []
    for stamp, number, data, _ in _received(messages):
        value = _json_in(data, number)
        if value is not None:
            events.append(LoggedEvent(value, number, False, stamp, False, False))
    try:
        found = of_events(events, [], "HAR, socket", file) if events else None
    except CaptureError:
        return None
    return _by_messages(found) if found else None


def _of_event_source(messages: Any, text: Any, file: str) -> Any:
    """Return the stream in the messages of an EventSource, which have times; None without all of
    them: `text` is the body, if it is there.
    """
    events, problems = [], []
    for number, message in enumerate(messages if isinstance(messages, list) else [], 1):
        if not isinstance(message, dict):
            continue
        data, at = message.get("data"), message.get("time")
        if not isinstance(data, str) or not isinstance(at, (int, float)):
            return None
        value = _json_in(plain_bytes(data), number)
        if value is not None:
            plain = any(letter > "\x7f" for letter in data)
            events.append(LoggedEvent(value, number, False, float(at), plain, "\\ufffd" in data))
        elif data == "[DONE]":
            problems.append(Problem(number, DONE))
    body = "\n" + text.replace("\r", "\n") if isinstance(text, str) and text else ""
    if not events or (body and body.count("\ndata:") != len(messages)):
        return None
    return _by_messages(of_events(events, problems, "HAR, server-sent events", file))


def _by_messages(found: Any) -> Any:
    """Return a stream whose lines and times are those of a socket's messages."""
    if "times" in found.header["source"]:
        found.header["source"]["times"] = "messages"
    return inside(found, MESSAGES)


def _received(messages: Any) -> list[Any]:
    """Return (time, number, bytes, whether they are binary) of each message that was received."""
    out = []
    for number, message in enumerate(messages if isinstance(messages, list) else [], 1):
        if object_at(message).get("type") != "receive":
            continue
        text, at = message.get("data"), message.get("time")
        if not isinstance(text, str):
            continue
        binary = message.get("opcode") == 2
        try:
            data = base64_bytes(text) if binary else plain_bytes(text)
        except CaptureError:
            continue
        stamp = float(at) if isinstance(at, (int, float)) else None
        out.append((stamp, number, data, binary))
    return out


def _json_in(data: bytes, number: int) -> Any:
    try:
        return parse_json(data.decode(), number) if data[:1] == b"{" else None
    except (CaptureError, UnicodeError):
        return None


def _of_pieces(pieces: list[Any], file: str) -> Any:
    """Return the stream of messages that are text or bytes by themselves; None without any."""
    chunks = []
    times = since_first([stamp for stamp, _, _, _ in pieces])
    for n, (_, number, data, binary) in enumerate(pieces):
        if not data:
            continue
        tokens = [(None, data)] if binary else []
        broken = REPLACED if not binary and LOST in data else ""
        seconds = times[n] if times else 0.0
        said = None if binary else data
        chunks.append(Chunk(seconds, CONTENT, tokens, said, number, n + 1, broken, True, None))
    if not chunks:
        return None
    source = {"format": "HAR, socket", "server": UNKNOWN, "file": file}
    if times:
        source["times"] = "messages"
    engine = {"name": UNKNOWN, "model": None, "fidelity": fidelity(chunks)}
    header = {"detok": 1, "source": source, "engine": engine}
    found = Import(header, chunks, times[-1] if times else None, None, [], 0, NO_FACTS)
    return inside(found, MESSAGES)


def _url(entry: Any) -> str:
    url = object_at(entry, "request").get("url")
    return str(url).split("?")[0][:80] if url else "no address"
