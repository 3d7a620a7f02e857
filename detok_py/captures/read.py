"""A file, as a stream of chunks: whatever it is, and what in it could not be read.

In: the bytes of a file. Out: an `Import`. The file is a `.detok.jsonl`, a HAR file, one JSON value,
or events: a body, the output of curl, a log (log.py). Which server's events they are is found out
from them (servers.py).
"""

import json
from binascii import a2b_base64
from typing import Any, NamedTuple

from ..errors import CaptureError
from ..protocol import wire
from .capture import EVENT, MAX_SIZE, TEXT, frames_of, read_capture
from .log import MAX_PROBLEMS, LoggedEvent, Problem, read_log
from .parse import Halves, parse_json
from .servers import CONTENT, Server

# header: as that of a capture, with "source" · chunks · seconds: how long it took, None if the file
# has no times · end: the event that ended it, or None · problems: by line · left_out: how many more
Import = NamedTuple(
    "Import",
    [
        ("header", "dict[str, Any]"),
        ("chunks", "list[Chunk]"),
        ("seconds", "float | None"),
        ("end", "dict[str, str] | None"),
        ("problems", "list[Problem]"),
        ("left_out", int),
    ],
)
# seconds since the start · channel · tokens: (id or None, bytes or None) each · data: the bytes of
# its text, None if only tokens are known · line and event in the file, both from 1 · broken: how
# the text was damaged before it came here, or ""
Chunk = NamedTuple(
    "Chunk",
    [
        ("seconds", float),
        ("channel", str),
        ("tokens", "list[Any]"),
        ("data", "bytes | None"),
        ("line", int),
        ("event", int),
        ("broken", str),
    ],
)

REPLACED = "the text arrived with U+FFFD in it"
INVALID = "the bytes that arrived are not UTF-8"
HALF = "half a character arrived alone: a surrogate pair was cut"


def read(data: bytes, file: str = "") -> Any:
    """Return the stream in a file. Raises CaptureError if there is none.

    >>> found = read(b'data: {"choices":[{"delta":{"content":"\\\\ufffd"}}]}\\n\\n', "a.sse")
    >>> found.header["source"]["server"], found.chunks[0].data, found.chunks[0].broken
    ('OpenAI-compatible server, chat completions', b'\\xef\\xbf\\xbd', 'the text arrived with U+FFFD
    in it')
    """
    if len(data) > MAX_SIZE:
        raise CaptureError(
            f"the file has {len(data) >> 20} MiB; at most {MAX_SIZE >> 20} MiB are read."
        )
    data = _as_utf8(data)
    first = data.split(b"\n", 1)[0].strip()
    if first[:1] == b"{" and b'"detok"' in first:
        return _of_capture(data.decode(), file)
    if data.strip()[:1] in (b"{", b"["):
        try:
            value = parse_json(data.decode(), 1, halves=True)
        except (CaptureError, UnicodeError):
            pass  # lines of JSON
        else:
            if isinstance(value, dict) and isinstance(value.get("log"), dict):
                return _of_har(value, file)
            values = value if isinstance(value, list) else [value]
            lines = _lines_of_items(data.decode()) if isinstance(value, list) else [1]
            events = [
                LoggedEvent(item, lines[n] if n < len(lines) else 1, False)
                for n, item in enumerate(values)
            ]
            return _of_events(events, [], "JSON", file)
    events, problems = read_log(data)
    form = "server-sent events" if b"data:" in data else "lines of JSON"
    return _of_events(events, problems, form, file)


def _as_utf8(data: bytes) -> bytes:
    """Return a text without byte order mark, in UTF-8. PowerShell saves what curl writes in UTF-16.

    >>> _as_utf8("\\ufeffdata: é".encode("utf-16-le")) == "data: é".encode()
    True
    """
    if data[:3] == b"\xef\xbb\xbf":
        return data[3:]
    if data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        return data
    low, high = (0, 1) if data[:1] == b"\xff" else (1, 0)
    out = []
    held = 0
    for at in range(2, len(data) - 1, 2):
        code = data[at + low] | data[at + high] << 8
        if held and 0xDC00 <= code < 0xE000:
            code, held = 0x10000 + ((held - 0xD800) << 10) + code - 0xDC00, 0
        elif 0xD800 <= code < 0xDC00:
            held = code
            continue
        out.append(chr(code) if not 0xD800 <= code < 0xE000 else "\ufffd")
    return "".join(out).encode()


def _of_events(
    events: list[Any],
    problems: list[Any],
    form: str,
    file: str,
    times: "list[float] | None" = None,
) -> Any:
    server = Server()
    chunks = _chunks_of_events(server, events, problems, times)
    if not chunks:
        reason = "" if not problems else f" Line {problems[0].line}: {problems[0].reason}."
        if server.error:
            reason = " The server said: " + server.error
        raise CaptureError(
            "there is no token stream in this: no event has text, ids or bytes." + reason
        )
    end = None
    if server.error:
        end = {"type": "error", "message": server.error}
    elif server.finish:
        end = {"type": "finished", "reason": server.finish}
    name = server.name or "unknown server"
    source = {"format": form, "server": name, "file": file}
    engine = {"name": name, "model": server.model, "fidelity": fidelity(chunks)}
    header = {"detok": 1, "source": source, "engine": engine}
    seconds = times[-1] if times else None
    return with_problems(Import(header, chunks, seconds, end, [], 0), problems)


def _chunks_of_events(
    server: Server, events: list[Any], problems: list[Any], times: "list[float] | None"
) -> list[Any]:
    halves: dict[str, Halves] = {}
    chunks: list[Any] = []
    seconds = 0.0
    for number, event in enumerate(events, 1):
        seconds = times[number - 1] if times else 0.0
        for value in event.value if isinstance(event.value, list) else [event.value]:
            parts = server.read(value)
            if isinstance(parts, str):
                problems.append(Problem(event.line, parts))
                continue
            for part in parts or []:
                chunks += _chunk(halves, part, seconds, event, number)
    ends = [part for part in server.flush() if events]
    for part in ends:
        chunks += _chunk(halves, part, seconds, events[-1], len(events))
    for channel in halves:
        data, _ = halves[channel].flush()
        if data:
            chunks.append(Chunk(seconds, channel, [], data, events[-1].line, len(events), HALF))
    return chunks


def _chunk(halves: dict[str, Halves], part: Any, seconds: float, event: Any, number: int) -> Any:
    """Return the chunk of a part in a list, [] if nothing of it can be shown yet."""
    data, alone = halves.setdefault(part.channel, Halves()).feed(part.text)
    broken = ""
    if any(bytes_ is not None for _, bytes_ in part.tokens):
        pass  # the text is shown by the bytes of its tokens
    elif "\ufffd" in part.text:
        broken = INVALID if event.raw else REPLACED
    elif alone:
        broken = HALF
    if not data and not part.tokens:
        return []
    return [Chunk(seconds, part.channel, part.tokens, data, event.line, number, broken)]


def fidelity(chunks: list[Any]) -> str:
    """Return what is known of every chunk: "ids", "bytes" of its tokens, or only "text"."""
    if all(chunk.tokens and all(i is not None for i, _ in chunk.tokens) for chunk in chunks):
        return "ids"
    exact = [
        chunk.data is None or (chunk.tokens and all(data is not None for _, data in chunk.tokens))
        for chunk in chunks
    ]
    return "bytes" if all(exact) else "text"


def _of_capture(text: str, file: str) -> Any:
    header, records = read_capture(text)
    return _of_records(dict(header), records, file, "detok capture", 2)


def _of_records(header: Any, records: list[Any], file: str, form: str, line: int) -> Any:
    chunks = []
    end = None
    seconds = 0.0
    halves = Halves()
    for number, record in enumerate(records, 1):
        seconds += record.seconds
        kind, value = record.kind, record.value
        if kind == EVENT:
            end = value if value.get("type") in ("finished", "error") else end
            continue
        tokens: list[Any] = []
        data = None
        broken = ""
        if kind == "i":
            tokens = [(i, None) for i in value]
        elif kind == "t":
            tokens = list(value)
        elif kind == TEXT:
            data = halves.feed(value)[0]
            broken = REPLACED if "\ufffd" in value else ""
        else:
            tokens = [(None, value[1] if kind == "g" else value)]
        chunks.append(Chunk(seconds, CONTENT, tokens, data, line + number - 1, number, broken))
    source = {"format": form, "server": "detok bridge", "file": file}
    header.setdefault("source", source)
    return Import(header, chunks, seconds, end, [], 0)


def _of_har(har: Any, file: str) -> Any:
    """Return the first stream in a HAR file: of a socket, or of a body (HAR 1.2, `content`).

    Browsers save the frames of a WebSocket as `_webSocketMessages`: text as it is, binary data in
    base64.
    """
    entries = har["log"].get("entries")
    if not isinstance(entries, list):
        raise CaptureError("not a HAR file: it has no log.entries.")
    found = None
    problems: list[Any] = []
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            continue
        where = f"entry {number} ({_url(entry)})"
        try:
            stream = _of_entry(entry, file)
        except CaptureError as error:
            problems.append(Problem(0, f"{where}: {error}"))
            continue
        if stream is None:
            continue
        if found is not None:
            problems.append(Problem(0, f"{where} has a stream too; only the first is read"))
            continue
        found = stream
        found.header["source"]["entry"] = number
    if found is None:
        why = f" {problems[0].reason}" if problems else ""
        raise CaptureError(
            "this HAR file has no stream of an engine; open the developer tools before the stream "
            "starts, and save it again with its content." + why
        )
    return with_problems(found, problems)


def with_problems(found: Any, more: list[Any]) -> Any:
    """Return an import with more problems."""
    told = found.problems + more
    left_out = found.left_out + max(0, len(told) - MAX_PROBLEMS)
    header, chunks, seconds, end, _, _ = found
    return Import(header, chunks, seconds, end, told[:MAX_PROBLEMS], left_out)


def _of_entry(entry: Any, file: str) -> Any:
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
            return _of_records(header, records, file, "HAR, detok.v1 socket", 1)
        return _of_messages(messages, file)
    content = (entry.get("response") or {}).get("content") or {}
    text = content.get("text")
    kind = str(content.get("mimeType"))
    if not isinstance(text, str) or not text:
        if "event-stream" in kind or "ndjson" in kind:
            raise CaptureError("its body was not saved")
        return None
    if not ("event-stream" in kind or "json" in kind or text[:5] in ("data:", "event")):
        return None
    data = a2b_base64(text.encode()) if content.get("encoding") == "base64" else _plain(text)
    try:
        stream = read(data, file)
    except CaptureError:
        if "event-stream" in kind or "ndjson" in kind:
            raise
        return None  # one of the page's other requests
    stream.header["source"]["format"] = "HAR, " + stream.header["source"]["format"]
    return stream


def _of_messages(messages: Any, file: str) -> Any:
    """Return the stream of a socket whose messages are events in JSON; None if they are not."""
    events, times = [], []
    begun = None
    for number, message in enumerate(messages if isinstance(messages, list) else [], 1):
        if not isinstance(message, dict) or message.get("type") != "receive":
            continue
        text = message.get("data")
        if message.get("opcode") == 2 or not isinstance(text, str) or text[:1] != "{":
            continue
        try:
            value = parse_json(_plain(text).decode(), number)
        except CaptureError:
            continue
        at = message.get("time")
        at = float(at) if isinstance(at, (int, float)) else 0.0
        begun = at if begun is None else begun
        events.append(LoggedEvent(value, number, False))
        times.append(max(0.0, at - begun))
    try:
        return _of_events(events, [], "HAR, socket", file, times) if events else None
    except CaptureError:
        return None


def _plain(text: str) -> bytes:
    """Return the bytes of a string that may have marked halves."""
    halves = Halves()
    return halves.feed(text)[0] + halves.flush()[0]


def _url(entry: Any) -> str:
    url = (entry.get("request") or {}).get("url")
    return str(url).split("?")[0][:80] if url else "no address"


def _lines_of_items(text: str) -> list[int]:
    """Return the lines on which the items of a JSON array begin.

    >>> _lines_of_items('[{"a": "]"},\\n {"b":\\n [1]},\\n3]')
    [1, 2, 4]
    """
    strings = text.replace("\\\\", "").replace('\\"', "").split('"')
    lines = []
    line, level, begins = 1, 0, False
    for letter in '"'.join(strings[::2]):  # each string is one quote
        line += letter == "\n"
        if begins and letter not in "] \t\r\n":
            lines.append(line)
            begins = False
        if letter in "[{":
            level += 1
            begins = level == 1
        elif letter in "]}":
            level -= 1
        elif letter == ",":
            begins = level == 1
    return lines


def summary(found: Any) -> dict[str, Any]:
    """Return what a page says of an import, without the stream itself."""
    return {
        "header": found.header,
        "timed": found.seconds is not None,
        "end": found.end,
        "problems": [[problem.line, problem.reason] for problem in found.problems],
        "leftOut": found.left_out,
    }


def as_json(value: Any) -> str:
    """Return compact JSON."""
    return json.dumps(value, separators=(",", ":"))
