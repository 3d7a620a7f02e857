"""The stream in messages of a SignalR hub or of socket.io.

In: the messages of a socket, or lines that were copied from a list of them. Out: an `Import`. Held:
nothing. SignalR's JSON protocol ends each message with 0x1E. A packet of socket.io 4 begins with
the digits of engine.io's and its own type: `42["event",{…}]`.
"""

from codecs import utf_8_decode
from typing import Any, NamedTuple

from ..errors import CaptureError
from .event_shapes import find, read_event
from .gateways import STARTS, broken_borders
from .imported import AT_NO_END, with_borders, with_end, with_fact, with_note
from .log import LoggedEvent, read_pieces
from .parse import Halves, chars_of, is_utf8, object_at, parse_json
from .sentence import FAILED
from .servers import LOST
from .stream import of_events
from .times import seconds_in

# by: SIGNALR or SOCKET_IO · name: of what is called, CALL for an item of a stream · given: its
# arguments · role: SAID, or what the message does instead
Message = NamedTuple("Message", [("by", str), ("name", str), ("given", "list[Any]"), ("role", str)])

SIGNALR, SOCKET_IO = "SignalR", "socket.io"
SAID, OTHER, END, ERROR, CLOSED = "said", "other", "end", "error", "closed"
CALL = "stream item"
SEPARATOR = b"\x1e"
SIGNS = (SEPARATOR, b'"invocationId"', b'"arguments"', b'\n42["', b"\n42/", b'\t42["')
MOST_TRIED = 9  # lines
TIMES_MORE = 3  # how often there must be a message with text for one of each other kind
ENDS = ("done", "end", "finish", "finished", "complete", "completed", "stop", "stopped")
NO_ENDS = ("send", "append", "extend")
THOUGHTS = ("reason", "think", "thought")
REASONS = "[*].finish_reason,finishReason,stop_reason,stopReason,reason"
SENTENCES = "[*].error.message|[*].message,error,detail,errorText"
CLOSES = "The server closed the connection before it said that the answer is over."


def of_lines(data: bytes, lines: list[bytes], file: str) -> Any:
    """Return the stream in lines with one message each, or with the columns of a browser's list;
    None for other files. Raises CaptureError if it is not certain what their text is.
    """
    if not any(sign in b"\n" + data for sign in SIGNS):
        return None
    rows: list[Any] = []
    for number, line in enumerate(lines, 1):
        if len(rows) == MOST_TRIED and not any(
            _message_in(row.split(SEPARATOR)[0], n) for _, n, row in rows
        ):
            return None
        if not line.strip():
            continue
        columns = line.split(b"\t")
        likely = [one for one in columns if b"{" in one or b"[" in one]
        row = (likely or [one for one in columns if one.strip()] or [b""])[0].strip(b" \r")
        words = b" ".join([one for one in columns if one != row])
        rows.append((seconds_in(chars_of(words)), number, row))
    return of_messages(rows, file, "")


def of_messages(rows: "list[tuple[float | None, int, bytes]]", file: str, form: str) -> Any:
    """Return the stream in messages, each with when it came, and its number; None if they are of
    another kind. `form` is what the format's name begins with. Raises CaptureError if it is not
    certain what their text is.
    """
    read = [
        (message, stamp, number, part)
        for stamp, number, row in rows
        for part in row.split(SEPARATOR)
        if part.strip()
        for message in [_message_in(part, number)]
    ]
    known = [message for message, _, _, _ in read if message is not None]
    if not any(one.role != OTHER for one in known) or 10 * len(known) < 9 * len(read):
        return None
    by = known[0].by
    texts = _texts_of(known)
    if not texts and not any(one.role == ERROR for one in known):
        names = sorted({one.name for one in known if one.role == SAID})
        shown = ", ".join([f"“{name[:40]}”" for name in names[:4]])
        of = f" Their names are {shown}." if names else ""
        raise CaptureError(
            f"these are {by} messages, and it is not certain which of them have the text.{of}"
        )
    body = _body_in(read, texts)
    if body:
        pieces, stamps = body
        found = of_events(*read_pieces(pieces, stamps), f"{form}{by} messages", file)
        found = with_borders(found, *broken_borders(pieces))
        return _ended(found, known, "")
    events, last, end = [], -1, (-1, "")
    for n, (message, stamp, number, part) in enumerate(read):
        if message is None:
            continue
        value = _value_of(message, texts)
        if value is not None:
            raw = not is_utf8(part)
            plain = max(part) > 127
            events.append(LoggedEvent(value, number, raw, stamp, plain, LOST not in part))
        if message.name in texts:
            last = n
        elif _ends(message):
            end = (n, _reason_of(message))
            events.append(LoggedEvent({}, number, False, stamp, False, False))  # it has a time
    found = of_events(events, [], f"{form}{by} messages", file)
    return _ended(found, [one for one, _, _, _ in read if one], end[1] if end[0] > last else "")


def _body_in(read: list[Any], texts: dict[str, int]) -> Any:
    """Return the body of a response that messages have as strings, in pieces, and when each line of
    the file came; None if their texts are no server-sent events.
    """
    pieces: list[tuple[bytes, int]] = []
    stamps: list[Any] = [None] * max([number for _, _, number, _ in read])
    for message, stamp, number, _ in read:
        place = texts.get(message.name, -1) if message is not None else -1
        text = message.given[place] if 0 <= place < len(message.given) else None
        if isinstance(text, str):
            pieces.append((plain_bytes(text), number))
            stamps[number - 1] = stamp
    if not pieces or not pieces[0][0].lstrip().startswith(STARTS):
        return None
    return pieces, stamps if any(stamps) else None


def plain_bytes(text: str) -> bytes:
    """Return the bytes of a string that may have marked halves."""
    halves = Halves()
    return halves.feed(text)[0] + halves.flush()[0]


def _ended(found: Any, messages: list[Any], reason: str) -> Any:
    """Return a stream with how its messages say that it ended."""
    if found.end is not None:
        return found
    if reason:
        return with_end(found, reason)
    if any(one.role == CLOSED for one in messages):
        return with_note(found, CLOSES)
    if any(one.name == CALL for one in messages):  # SignalR completes each stream
        return with_fact(found, AT_NO_END, True)
    return found


def _message_in(part: bytes, number: int) -> Any:
    """Return the message in a frame, None if it is none."""
    text = utf_8_decode(part, "replace", True)[0].strip()
    try:
        if text[:1] == "{":
            return _of_signalr(parse_json(text, number, halves=True))
        return _of_socket_io(text, number)
    except CaptureError:
        return None


def _of_signalr(value: Any) -> Any:
    """Return the message of SignalR that an object is, None if it is none."""
    kind, error = value.get("type"), value.get("error")
    if "type" not in value:  # the handshake
        known = not value or "protocol" in value or list(value) == ["error"]
        role = ERROR if error else OTHER
        return Message(SIGNALR, "", [error], role) if known else None
    if type(kind) is not int or not 0 < kind < 10:
        return None
    if kind == 1 and isinstance(value.get("target"), str):
        given = value.get("arguments")
        return Message(SIGNALR, value["target"], given, SAID) if isinstance(given, list) else None
    if kind == 2 and "item" in value:
        return Message(SIGNALR, CALL, [value["item"]], SAID)
    roles = {3: END, 7: CLOSED}
    role = ERROR if error and kind in roles else roles.get(kind, OTHER)
    return Message(SIGNALR, "", [error], role) if kind > 2 else None


def _of_socket_io(text: str, number: int) -> Any:
    """Return the message in a packet of engine.io, None if it is none."""
    if text[:2] == "42" or text[:2] == "44":
        rest = text[2:]
        if rest[:1] == "/":  # a namespace
            rest = rest.partition(",")[2]
        begin = 0
        while rest[begin : begin + 1].isdigit():  # the number of an acknowledgement
            begin += 1
        value = parse_json(rest[begin:], number, halves=True)
        if text[1] == "4":
            return Message(SOCKET_IO, "", [value], ERROR)
        named = isinstance(value, list) and value and isinstance(value[0], str)
        return Message(SOCKET_IO, value[0], value[1:], SAID) if named else None
    if text in ("1", "41"):
        return Message(SOCKET_IO, "", [], CLOSED)
    known = text in ("2", "3", "5", "6", "2probe", "3probe") or text[:2] in ("0{", "40", "43")
    return Message(SOCKET_IO, "", [], OTHER) if known else None


def _texts_of(messages: list[Any]) -> dict[str, int]:
    """Return the names of messages that have text, and which argument it is: those that came most
    often, and those of reasoning.
    """
    given: dict[str, list[Any]] = {}
    for one in messages:
        if one.role == SAID and one.given and _step_in(one) is None:
            given.setdefault(one.name, []).append(one.given)
    places = {name: _place_of(rows) for name, rows in given.items()}
    counts = [(len(given[name]), name) for name in sorted(given) if places[name] >= 0]
    answers = [one for one in counts if not _has(one[1], THOUGHTS) and not _is_end(one[1])]
    answers.sort()
    if len(answers) > 1 and TIMES_MORE * answers[-2][0] > answers[-1][0]:
        return {}  # which of them is the answer is not certain
    thoughts = [name for _, name in counts if _has(name, THOUGHTS)]
    return {name: places[name] for name in [name for _, name in answers[-1:]] + thoughts}


def _place_of(rows: list[list[Any]]) -> int:
    """Return which argument has the text, -1 if that is not certain: an event of known shape, or
    the only string that is not the same in all messages.

    >>> _place_of([["id-1", "a"], ["id-1", "b"]]), _place_of([["x", "a"], ["y", "b"]])
    (1, -1)
    >>> _place_of([[{"id": 1, "text": "a"}]]), _place_of([[{"id": 1}]])
    (0, -1)
    """
    columns = [[row[n] for row in rows if len(row) > n] for n in range(max(map(len, rows)))]
    events = [n for n, column in enumerate(columns) if any(_has_text(one) for one in column)]
    if events:
        return events[0] if len(events) == 1 else -1
    strings = [n for n, column in enumerate(columns) if all(isinstance(x, str) for x in column)]
    if len(strings) > 1:
        strings = [n for n in strings if any(x != columns[n][0] for x in columns[n])]
    return strings[0] if len(strings) == 1 else -1


def _has_text(value: Any) -> bool:
    """Return whether a value is an event of known shape that has text."""
    value = _opened(value)
    said = read_event(value, 0, "") if isinstance(value, dict) else None
    return bool(said and (said.text or said.reasoning or said.calls))


def _opened(value: Any) -> Any:
    """Return the object in a string of JSON, or in Open WebUI's message; other values as they are.

    >>> _opened({"chat_id": "a", "data": {"type": "chat:completion", "data": {"content": "b"}}})
    {'content': 'b', 'type': 'chat:completion'}
    """
    try:
        value = parse_json(value, 0) if isinstance(value, str) and value[:2] == '{"' else value
    except CaptureError:
        return value
    message = object_at(value, "data") if "chat_id" in object_at(value) else {}
    kind, inner = message.get("type"), message.get("data")
    if not isinstance(kind, str) or not kind.startswith("chat:"):
        return value
    if kind == "chat:completion" and isinstance(inner, dict) and "content" in inner:
        inner = dict(inner)
        inner["type"] = kind
    return inner


def _value_of(message: Any, texts: dict[str, int]) -> Any:
    """Return the event that a message is; None if it has none."""
    if message.role == ERROR or (_has(message.name, ("error",)) and message.name not in texts):
        found = [one for one in message.given if isinstance(one, str)]
        found += [one for one in find(message.given, SENTENCES) if isinstance(one, str)]
        return {"error": {"message": found[0] if found else FAILED}}
    step = _step_in(message)
    if step is not None and texts:
        return step
    place = texts.get(message.name, -1)
    if place < 0 or len(message.given) <= place:
        return None
    value = _opened(message.given[place])
    if isinstance(value, str) and _has(message.name, THOUGHTS):
        return {"type": "reasoning", "delta": value}
    return value if isinstance(value, (str, dict)) else None


def _step_in(message: Any) -> Any:
    """Return Chainlit's step in a message: it begins an answer, with its first piece, or ends it,
    with the whole text. None if there is none.
    """
    value: Any = message.given[0] if message.role == SAID and message.given else None
    is_step = isinstance(value, dict) and value.get("type") == "assistant_message"
    return value if is_step and "streaming" in value else None


def _ends(message: Any) -> bool:
    """Return whether a message says that the answer is over."""
    return message.role == END or (message.role == SAID and _is_end(message.name))


def _reason_of(message: Any) -> str:
    """Return why an answer ended, in the server's word."""
    found = [one for one in find(message.given, REASONS) if isinstance(one, str)]
    return found[0] if found else message.name or "completed"


def _is_end(name: str) -> bool:
    """Return whether a name is one for the end of an answer.

    >>> _is_end("streamEnd"), _is_end("done"), _is_end("send"), _is_end("token")
    (True, True, False, False)
    """
    name = name.lower()
    return any(name.endswith(one) for one in ENDS) and not any(name.endswith(x) for x in NO_ENDS)


def _has(name: str, words: tuple[str, ...]) -> bool:
    return any(word in name.lower() for word in words)
