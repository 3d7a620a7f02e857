"""Read a file of any supported kind as a stream of chunks, and list what could not be read.

In: the bytes of a file. Out: an `Import`. The file is a `.detok.jsonl`, a HAR file, one JSON value,
or events: a body, the output of curl, a log (log.py). servers.py finds out which server the events
come from.
"""

from typing import Any

from ..errors import CaptureError
from ..protocol.sse import EventReader
from .capture import check_size, read_capture
from .cloud import lines_of_entries, lines_of_log
from .compare import contents
from .dumps import (
    blocks_of,
    curl_trace,
    hex_dump,
    http_body,
    note_of_flow,
    without_fetch,
    without_request,
)
from .fold import Folded
from .frames import packets, read_frames
from .gateways import broken_borders, pieces_of_console, pieces_of_log
from .har import BODY, GZIP, of_bodies, of_har
from .hubs import of_lines as of_hub
from .imported import INVALID, inside, with_borders, with_end, with_note, with_problems
from .kinds import kind_of
from .log import (
    BREAKS_OFF,
    DAMAGED,
    INSIDE,
    NO_EVENT,
    NOT_TEXT,
    LoggedEvent,
    Problem,
    read_log,
    read_pieces,
    shown,
)
from .notes import CHARSET, WINDOWS, is_latin, is_windows, length_note, windows_as_utf8
from .order import quoted
from .parse import chars_of, is_utf8, parse_json
from .printed import joined_values
from .printout import MOST_BEFORE, may_be_printed, of_printed
from .sentence import MESSAGES
from .servers import COMPATIBLE
from .stream import LOSSY, NO_BYTES, UNKNOWN, of_events, of_records
from .wrapped import bodies_of_cassette, unwrapped, without_escapes

# What only one server writes beside events: in a log; in comments of a stream.
LOCAL_AI = b" DBG Sending chunk: {"
OF_EXO = (b": prefill_progress {", b": generation_stats {")
FLAGS = b": Flags ["  # of tcpdump
MOST_TRIES = 20  # braces that may be the end of the last whole item
AS_LATIN = ", and it is read so here. Event streams are UTF-8, so most clients show � for é."
MOST_OF_HEAD = 4096  # bytes of a cassette before its first interaction
NAMES_OF_ENDS = (b"done", b"end", b"error", b"ping", b"metadata")


def read(
    data: bytes,
    file: str = "",
    path: str = "",
    entry: int = 0,
    *,
    together: bool = False,
    folded: "Folded | None" = None,
) -> Any:
    """Return the stream in a file. Raises CaptureError if there is none.

    `path` is the path of the text in events of unknown shape (see event_shapes.py). `entry` is the
    number of an entry of a HAR file, from 1; 0 is the first with a stream. With `together`, a chunk
    can be the texts of many events. `folded` is what was taken out of the file; if it is not `used`
    afterwards, or if a CaptureError is raised, the whole file must be read.

    >>> found = read(b'data: {"choices":[{"delta":{"content":"hi"}}]}', "a.sse")
    >>> found.header["source"]["server"], found.chunks[0].data
    ('OpenAI-compatible server, chat completions', b'hi')
    """
    check_size(data)
    data, note = _prepared(data)
    if note and folded is not None:
        raise CaptureError(note)  # a part is not here
    if data[:1] == b"{" and b"}\0" in data:
        data = data.replace(b"\0", b"\n")  # FastChat
    first = data.split(b"\n", 1)[0].strip()
    if first[:1] == b"{" and b'"detok"' in first:
        header, records = read_capture(data.decode())
        return of_records(dict(header), records, file, "detok capture", 2)
    data = without_fetch(without_request(data))
    answer = http_body(data.lstrip(b"\n"))
    if answer and answer[0] != data.partition(b"\r\n\r\n")[2]:
        return _of_body(*answer, "HTTP response", file, path)
    frames = read_frames(data) if data else None
    if frames:
        found = _of_bedrock(of_events(*frames, "Amazon event stream", file, path))
        return inside(found, MESSAGES)
    kind = kind_of(data)
    if kind:
        raise CaptureError(f"no token stream was found in this: it is {kind}.")
    found = _of_json(data, file, path, entry) if data.strip()[:1] in (b"{", b"[") else None
    if b"interactions:" in data[:MOST_OF_HEAD] and is_utf8(data):
        found = found or _of_cassette(data, file, path, entry)
    found = found or _of_dump(data, file, path)
    return found or _of_lines(data, file, path, together, folded, note)


def _of_json(data: bytes, file: str, path: str, entry: int) -> Any:
    """Return the stream in a JSON value, or in an array that breaks off; None for other data."""
    try:
        value = parse_json(data.decode(), 1, halves=True)
    except (CaptureError, UnicodeError):
        return _cut_array(data, file, path)  # or lines of JSON
    if isinstance(value, dict) and isinstance(value.get("log"), dict):
        return of_har(value, file, read, entry)
    found = of_bodies(value, file, read)
    if found:
        return found
    values = value if isinstance(value, list) else [value]
    lines = _items_of(data.decode())[0] if isinstance(value, list) else [1]
    logged = lines_of_entries(list(zip(values, lines)))
    if logged:
        return of_events(*read_pieces(*logged), "log", file, path)
    events = [
        LoggedEvent(item, lines[n] if n < len(lines) else 1, *NOT_TEXT)
        for n, item in enumerate(values)
    ]
    return of_events(events, [], "JSON", file, path)


def _prepared(data: bytes) -> tuple[bytes, str]:
    """Return the bytes of a file as UTF-8, and what the head of an HTTP response says of them."""
    given, data = data, _as_utf8(data)
    note = length_note(data) if given.endswith(data) else ""
    if is_latin(data) and not is_utf8(data):
        data = windows_as_utf8(data)
        note = f"{note} {CHARSET}{AS_LATIN}".strip()
    return data, note


def _of_cassette(data: bytes, file: str, path: str, wanted: int) -> Any:
    """Return the stream of a response in a YAML cassette, from 1; for 0, the first stream. None for
    other files. The header's "entries" are as of `of_har`.
    """
    found = None
    streams = []
    packed = False
    for number, (url, pieces) in enumerate(bodies_of_cassette(data.decode()), 1):
        if pieces[0][0][:2] == GZIP:
            packed = True
            continue
        try:
            events, problems = read_pieces(pieces)
            stream = of_events(events, problems, "cassette", file, path)
        except CaptureError:
            continue  # another request
        streams.append([number, url.split("?")[0][:80] or "no address"])
        if number == wanted or (found is None and not wanted):
            found = stream
            found.header["source"]["entry"] = number
    if found:
        found.header["entries"] = streams
    elif packed:
        raise CaptureError(
            "the body in this cassette is compressed (gzip): record it with "
            "decode_compressed_response=True."
        )
    return found


def _cut_array(data: bytes, file: str, path: str) -> Any:
    """Return the stream in a JSON array that breaks off; None for other data."""
    whole = data[: len(data) - _size_of_rest(data)]  # without half a character at the end
    if data.replace(b" ", b"").strip()[:2] not in (b"[{", b"[\n", b"[\r") or not is_utf8(whole):
        return None
    text = whole.decode()
    (lines, end), values = _items_of(text), None
    for n in range(MOST_TRIES):
        try:
            values = parse_json(text[: end + 1] + "]", 1, halves=True)
            break
        except CaptureError:  # an item is damaged
            end = text.rfind("}", 0, end if n else len(text))
    if not values:
        return None
    events = [LoggedEvent(value, lines[n], *NOT_TEXT) for n, value in enumerate(values)]
    problem = Problem(1 + text[:end].count("\n"), "the array breaks off after this line")
    rest = text[end + 1 :].lstrip(" \t\r\n,")
    if rest:
        how = INSIDE if whole != data else BREAKS_OFF
        line = 1 + text[: len(text) - len(rest)].count("\n")
        problem = Problem(line, f"{DAMAGED} JSON {how}: " + shown(rest[-60:].encode()))
    return of_events(events, [problem], "JSON array", file, path)


def _size_of_rest(data: bytes) -> int:
    """Return how many bytes at the end begin a character that is not whole.

    >>> _size_of_rest("né".encode()[:-1]), _size_of_rest("né".encode()), _size_of_rest(b"n")
    (1, 0, 0)
    """
    for size in (1, 2, 3):
        first = data[-size] if size <= len(data) else 0
        if first & 0xC0 != 0x80:
            return size if first >= 0xC0 and not is_utf8(data[-size:]) else 0
    return 0


def _of_dump(data: bytes, file: str, path: str) -> Any:
    """Return the stream in a trace of curl or in a hex dump; None for other files."""
    traced = curl_trace(data)
    if traced:
        body, stamps, lossy = traced
        events, problems = read_log(body, stamps)
        if lossy:
            problems.append(Problem(0, LOSSY))
        said = data[data.rfind(b"\ncurl: (") + 1 :].split(b"\n")[0]
        if said.startswith(b"curl: ("):
            problems.append(Problem(0, NO_EVENT + shown(said)))
        return inside(of_events(events, problems, "curl --trace", file, path), BODY)
    sent = packets(blocks_of(data))
    dumped = sent[0] if sent else hex_dump(data)
    if not dumped:
        return None
    found = _of_body(*(http_body(dumped) or (dumped, "")), "hex dump", file, path)
    found = with_note(found, length_note(dumped))
    if sent and sent[1]:
        found = with_problems(found, [Problem(0, "a packet is missing in this dump")])
    return found


def _of_body(body: bytes, encoding: str, form: str, file: str, path: str) -> Any:
    """Return the stream in the body of a response, in a file of this form."""
    if encoding not in ("", "identity"):
        raise CaptureError(
            f"the body in this {form} is compressed ({encoding}); ask without Accept-Encoding."
        )
    found = read(body, file, path)
    found.header["source"]["format"] = f"{form}, " + found.header["source"]["format"]
    return inside(found, BODY)


def _of_pieces_in_log(
    pieces: "list[tuple[bytes, int]]", stamps: "list[float | None] | None", file: str, path: str
) -> Any:
    """Return the stream in the pieces of a body that stand in a log's lines."""
    found = of_events(*read_pieces(pieces, stamps), "log", file, path)
    return with_borders(found, *broken_borders(pieces))


def _of_lines(
    data: bytes, file: str, path: str, together: bool, folded: "Folded | None", note: str
) -> Any:
    """Return the stream in lines: events, a log, or values that a program printed."""
    lines = data.replace(b"\r\n", b"\n").split(b"\n")
    found = of_hub(data, lines, file)
    if found:
        return found
    pieces = pieces_of_log(lines) or pieces_of_console(lines)
    if pieces:
        return _of_pieces_in_log(*pieces, file, path)
    logged = lines_of_log(lines)
    if logged:
        return of_events(*read_pieces(*logged), "log", file, path)
    inner = unwrapped(lines)
    pieces = pieces_of_console(inner[0]) if inner else None
    if pieces and inner:
        return _of_pieces_in_log(pieces[0], inner[1], file, path)
    if inner:
        events, problems = read_log(b"\n".join(inner[0]), inner[1] + [None])
        return of_events(events, problems, "log", file, path)
    first = [_text_of(line) for line in lines[:MOST_BEFORE] if line.strip() and is_utf8(line)]
    first = joined_values(first)
    maybe = may_be_printed(first)
    if maybe and is_windows(lines):
        found = _of_lines(windows_as_utf8(data), file, path, together, folded, note)
        return with_note(found, WINDOWS)
    maybe = maybe or any(text.lstrip()[:1] in ("b", "'", '"') for text in first)
    texts = [_text_of(line) if is_utf8(line) else "" for line in lines] if maybe else []
    texts = joined_values(texts)
    found, why = of_printed(lines, texts, file, path)
    if found:
        return found
    lines = []  # as large as the file: `read_log` has its own
    events, problems = read_log(data, together=together, folded=folded)
    if FLAGS in data or (folded is not None and folded.has(FLAGS.decode())):
        problems.append(Problem(0, NO_BYTES))
    problems += [Problem(0, note)] if note else []
    form = "server-sent events" if b"data:" in data else "lines of JSON"
    try:
        found = _named(of_events(events, problems, form, file, path), data)
        found = with_note(found, note_of_flow(data))
        return found if folded is not None else _with_text_of_windows(found, data, file, path)
    except CaptureError:
        if folded is not None:
            raise
        lines = data.replace(b"\r\n", b"\n").split(b"\n")
        events = [] if path else _pieces(lines)
        if not events:
            if why is None:
                raise
            raise why from None
    found = of_events(events, [], "server-sent events", file)
    if found.end is None and any(line.rstrip() == b"event: done" for line in lines):
        found = with_end(found, _reason_of_done(lines))
    if any(line.rstrip() == b"event: output" for line in lines):
        return _with_name(found, "Replicate")
    return found


def _reason_of_done(lines: list[bytes]) -> str:
    """Return why an answer of Replicate ended: `{"reason": "canceled"}`, or without a word, "done".

    >>> _reason_of_done([b"event: done", b'data: {"reason": "canceled"}']), _reason_of_done([b""])
    ('canceled', 'done')
    """
    for line in lines:
        if line.startswith(b'data: {"reason":'):
            return chars_of(line.split(b'"')[3][:40])
    return "done"


def _with_text_of_windows(found: Any, data: bytes, file: str, path: str) -> Any:
    """Return a stream with its text as it is in Windows-1252, if it can be in that."""
    broken = any(chunk.broken == INVALID for chunk in found.chunks)
    if not broken or not is_windows(data.split(b"\n")):
        return found
    text = "".join(contents(read(windows_as_utf8(data), file, path).chunks))
    if text:
        said = f" Read as Windows-1252, its text is: “{quoted(text)}”."
        found.facts.told["raw-all"] = said
    return found


def _named(found: Any, log: bytes) -> Any:
    """Return a stream with the name of the server that writes such a log, if events do not tell."""
    name = found.header["engine"]["name"]
    if not name.startswith(COMPATIBLE):
        return found
    own = "LocalAI" if LOCAL_AI in log else COMPATIBLE
    if log.startswith(OF_EXO) or any(b"\n" + mark in log for mark in OF_EXO):
        own = "exo"
    return _with_name(found, own + name[len(COMPATIBLE) :])


def _of_bedrock(found: Any) -> Any:
    """Return a stream with Amazon's name before that of the API that its model speaks."""
    name = found.header["engine"]["name"]
    if name == UNKNOWN:
        return _with_name(found, "Amazon Bedrock")
    own = name if name.startswith("Amazon") else f"Amazon Bedrock, {name.replace(', ', ' ', 1)}"
    return _with_name(found, own)


def _with_name(found: Any, name: str) -> Any:
    """Return a stream with the name of its server."""
    found.header["source"]["server"] = found.header["engine"]["name"] = name
    return found


def _pieces(lines: list[bytes]) -> list[Any]:
    """Return the events whose data is the text itself, not JSON, as Replicate and many servers of
    one's own send it; [] if the events are objects.
    """
    out: list[Any] = []
    name, begin = b"", 0
    for n, line in enumerate(lines + [b""]):
        if line.startswith(b"event:"):
            name = line[6:].strip()
        if line.startswith(b":") or line.strip():
            continue
        said = EventReader().feed(b"\n".join(lines[begin:n]) + b"\n\n")
        raw = not is_utf8(b"".join(lines[begin:n]))
        begin, first = n + 1, begin + 1
        text = said[0].data if said else ""
        if text[:1] == "{" and name not in NAMES_OF_ENDS:
            return []
        if text and name == b"error":
            out.append(LoggedEvent({"error": _value_of_error(text)}, first, *NOT_TEXT))
        elif text and name not in NAMES_OF_ENDS:
            out.append(LoggedEvent(text, first, raw, None, max(text) > "\x7f", False))
        name = b""
    return out


def _value_of_error(text: str) -> Any:
    try:
        return parse_json(text, 1)
    except CaptureError:
        return text


def _as_utf8(data: bytes) -> bytes:
    """Return a text in UTF-8 without byte order mark. PowerShell saves curl's output in UTF-16.

    >>> _as_utf8("\\ufeffdata: é".encode("utf-16-le")) == "data: é".encode()
    True
    >>> _as_utf8("data: é".encode("utf-16-be")) == "data: é".encode()
    True
    """
    if data[:3] == b"\xef\xbb\xbf":
        return data[3:]
    marked = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    low, high = (1, 0) if data[:2] == b"\xfe\xff" else (0, 1)
    if not marked:
        # Half of the bytes of Latin letters are 0.
        size = min(400, len(data)) // 2
        zeros = [sum([data[2 * n + at] == 0 for n in range(size)]) for at in (0, 1)]
        if size < 4 or max(zeros) < 0.6 * size or min(zeros) > 0:
            return data
        low, high = (1, 0) if zeros[0] else (0, 1)
    out = []
    held = 0
    for at in range(2 if marked else 0, len(data) - 1, 2):
        code = data[at + low] | data[at + high] << 8
        if held and 0xDC00 <= code < 0xE000:
            code, held = 0x10000 + ((held - 0xD800) << 10) + code - 0xDC00, 0
        elif 0xD800 <= code < 0xDC00:
            held = code
            continue
        out.append(chr(code) if not 0xD800 <= code < 0xE000 else "\ufffd")
    return "".join(out).encode()


def _items_of(text: str) -> tuple[list[int], int]:
    """Return the lines on which the items of a JSON array begin, and where the last object among
    them that is whole ends, 0 if there is none.

    >>> _items_of('[{"a": "]"},\\n {"b":\\n [1]},\\n3]'), _items_of('[{"a": "}"}, {"b": "}{')
    (([1, 2, 4], 24), ([1, 1], 10))
    """
    plain = text.replace("\\\\", "  ").replace('\\"', "  ")  # of the same length
    lines = []
    line, level, begins = 1, 0, False
    at = end = 0
    for n, part in enumerate(plain.split('"')):
        for k, letter in enumerate('"' if n % 2 else part):  # each string is one quote
            line += letter == "\n"
            if begins and letter not in "] \t\r\n":
                lines.append(line)
                begins = False
            if letter in "[{":
                level += 1
                begins = level == 1
            elif letter in "]}":
                level -= 1
                end = at + k if letter == "}" and level == 1 else end
            elif letter == ",":
                begins = level == 1
        at += len(part) + 1
    return lines, end


def _text_of(line: bytes) -> str:
    """Return a line of a terminal as text, without colours."""
    return without_escapes(line).decode()
