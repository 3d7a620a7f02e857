"""What an event of a server says: text, reasoning, tool calls, tokens, and how the answer ended.

In: the JSON value of one event, or of a whole answer. Out: a `Said`, or None for an unknown shape.
Held: nothing; `Calls` holds the tool calls that are open.

Which JSON shapes are known is a table: event_shapes.json has a few rows for each API.
web/src/read-events.js reads the same rows, and tests/vectors/servers.json has events of each API,
with what both must read. To add an API, add a row and a vector, and run
`python tools/event_shapes.py`.

The first row that applies to an event is used; rows for an exact `type` are tried first. A row
applies if the event meets all conditions in `when`. A row without `when` applies if its `text`
finds a string, or its `error` finds something. A condition is a path that the event has,
`path=value,value` (it finds one of these), or `path~part` (it finds a string that has the part).
All other fields are paths. `text`, `reasoning`, `calls`, `ids`, `tokens` and `finish` start at the
value at `in`, the others at the event. `text` and `reasoning` join all strings found; so does
`all`, the whole text of a message after its pieces. `calls` finds values at `at`, and has one path
for each field of a call, which starts there; `whole` marks calls that may repeat streamed ones.
`repeats` marks servers whose events repeat all text and ids so far, if not asked otherwise. `over`
finds something if the answer has ended, also without a reason. The steps of a path:

    a.b           a key in the value of a key
    a,b           the first of these keys whose value is not null or ""
    [*]           each item of a list
    [a] [!a]      the items (or the one object) whose key `a` is true; is not true
    [a=b]         the items whose key `a` is "b"
    path|path     the first path that finds a value other than null and ""
    path?word     `word`, if the path finds a true value

>>> read_event({"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]})[:3]
('OpenAI-compatible server', 'hi', '')
>>> read_event({"token": {"id": 7, "text": "hi"}}).ids, read_event({"usage": {}})
([7], None)
"""

import json
from typing import Any, NamedTuple

from ..protocol.wire import MAX_ID

# api: its name in the table · text, reasoning: "" if there is none · calls: a `Call` each · tokens:
# (id or None, bytes or None) each · ids: the new token ids, or None · data: the bytes of the
# tokens, or None · finish: why the answer ended, in the server's word, or None · over: whether it
# has ended · error: the server's sentence, or None · total: how many tokens there are so far, or
# None · so_far: all the text so far of a server that repeats it, or None · all: the whole text of a
# message, which a server sends after its pieces, "" if it does not
Said = NamedTuple(
    "Said",
    [
        ("api", str),
        ("text", str),
        ("reasoning", str),
        ("calls", "list[Call]"),
        ("tokens", "list[Any]"),
        ("ids", "list[int] | None"),
        ("data", "bytes | None"),
        ("finish", "str | None"),
        ("over", bool),
        ("error", "str | None"),
        ("total", "int | None"),
        ("so_far", "str | None"),
        ("all", str),
    ],
)
# A piece of a tool call; `text` is a part of its arguments.
Call = NamedTuple(
    "Call",
    [("index", "int | str | None"), ("id", str), ("name", str), ("text", str), ("whole", bool)],
)
MAX_OPEN = 64  # calls whose pieces come in turn
# The keys that `_token`, servers.py and stream.py look at.
OTHER_KEYS = (
    b"bytes", b"choices", b"created_at", b"delta", b"id", b"index", b"matched_stop", b"message",
    b"model", b"modelId", b"modelVersion", b"model_id", b"model_name", b"model_version", b"object", b"prompt_token_ids",
    b"response", b"sequence_number", b"service_tier", b"stop_reason", b"system_fingerprint", b"time", b"timestamp", b"timings", b"token",
    b"token_id", b"token_ids", b"ts", b"type",
)  # fmt: skip


def _read_table() -> Any:
    path = __file__.rpartition(".")[0] + ".json"
    loader = globals().get("__loader__")  # also reads from a zip; MicroPython has none
    if loader is not None:
        return json.loads(loader.get_data(path).decode())
    with open(path, encoding="utf-8") as file:
        return json.loads(file.read())


def _index_rows(table: Any) -> Any:
    """Return the rows by their exact `type`, and the other rows, each with some keys: an event must
    have one of them.
    """
    typed: Any = {}
    others = []
    for api, row in [(part["api"], row) for part in table for row in part["rows"]]:
        when = row.get("when", "").split()
        if when and when[0][:5] == "type=":
            for name in when[0][5:].split(","):
                typed.setdefault(name, []).append((api, row, when[1:]))
        else:
            sign = when[0] if when else row.get("text", row.get("error"))
            heads = [way.replace("[", ".").split(".")[0] for way in sign.split("|")]
            heads = [key for head in heads for key in _parts(head)[0].split(",")]
            others.append((heads, api, row, when))
    return typed, others


def _parts(condition: str) -> tuple[str, str, str]:
    """Return the path, the operator ("" if there is none) and the value of a condition."""
    for mark in "=~":
        path, found, value = condition.partition(mark)
        if found:
            return path, mark, value
    return condition, "", ""


def _known_keys(table: Any) -> tuple[Any, Any, Any]:
    """Return the keys that are looked at, those of them in the event itself, and those of texts."""
    keys, first, texts = set(OTHER_KEYS), set(OTHER_KEYS) - {b"id"}, set()
    for row in [row for part in table for row in part["rows"]]:
        calls = row.get("calls", {})
        for name, way in _ways_of(list(row.items()) + list(calls.items())):
            steps = [[key.encode() for key in step.split(",")] for step in way]
            keys.update([key for step in steps for key in step])
            if name not in calls or name == "at" or "at" not in calls:
                first.update(steps[0])
            if name in ("text", "reasoning"):
                texts.update(steps[-1])
    return keys, first, texts


def _ways_of(fields: list[Any]) -> Any:
    """Yield (field, names of the steps) of each path of a row whose value can change what an event
    says: not that of a key that has to be there only, and not how a call is told from others.
    """
    for name, path in fields:
        if name in ("index", "id") or not isinstance(path, str):
            continue
        for way in path.replace(" ", "|").split("|"):
            if name == "when" and not any(mark in way for mark in "=~["):
                continue
            for mark in "[].~=!*?":
                way = way.replace(mark, " ")
            if way.split():
                yield name, way.split()


def is_read(key: bytes, in_event: bool) -> bool:
    """Return whether a value at a key can change what an event says; `in_event` is whether the key
    is one of the event's own.

    >>> is_read(b"id", False), is_read(b"id", True), is_read(b"obfuscation", False)
    (True, False, False)
    """
    return b"\\" in key or key in (_FIRST if in_event else _KEYS)


def is_text(key: bytes) -> bool:
    """Return whether a text can be at a key.

    >>> is_text(b"content"), is_text(b"id")
    (True, False)
    """
    return key in _TEXTS


def find(event: Any, path: "str | None") -> list[Any]:
    """Return the values that a path finds.

    >>> find({"a": [{"b": 1}, {"b": 2}]}, "c|a[*].b"), find({"a": {"b": "", "c": 0}}, "a.b,c")
    ([1, 2], [0])
    """
    empty: list[Any] = []
    for steps, mark, word in _ways(path) if path is not None else ():
        found = [value for value in _follow(event, steps) if value is not None]
        found = [word] * any(found) if mark else found
        if any(value != "" for value in found):
            return found
        empty = empty or found
    return empty


_known: dict[str, list[Any]] = {}


def _ways(path: str) -> list[Any]:
    """Return the steps, the "?" and the word of each alternative of a path."""
    if path not in _known:
        _known[path] = [
            ([step for step in steps.replace("[", ".[").split(".") if step], mark, word)
            for steps, mark, word in [way.partition("?") for way in path.split("|")]
        ]
    return _known[path]


def _follow(event: Any, steps: list[str]) -> list[Any]:
    values = [event]
    for step in steps:
        if len(values) == 1 and isinstance(values[0], dict) and step[0] != "[" and "," not in step:
            if step not in values[0]:
                return []
            values = [values[0][step]]
            continue
        values = [inner for value in values for inner in _inside(value, step)]
    return values


def _inside(value: Any, step: str) -> list[Any]:
    if step[0] == "[":
        items = value if isinstance(value, list) else [value]
        if step == "[*]":
            return items
        key, equals, wanted = step[1:-1].partition("=")
        items = [item for item in items if isinstance(item, dict)]
        if equals:
            return [item for item in items if item.get(key) == wanted]
        return [item for item in items if bool(item.get(key.lstrip("!"))) != (key[0] == "!")]
    if not isinstance(value, dict):
        return []
    found = [value[key] for key in step.split(",") if key in value]
    return [one for one in found if one is not None and one != ""][:1] or found[:1]


def _meets(event: Any, condition: str) -> bool:
    path, mark, wanted = _parts(condition)
    values = _follow(event, _ways(path)[0][0])
    if mark == "~":
        return any(isinstance(value, str) and wanted in value for value in values)
    return any(value in wanted.split(",") for value in values) if mark else bool(values)


def _row_of(event: Any) -> Any:
    """Return the name of the API and the row that applies to an event, or None."""
    keys = event if isinstance(event, dict) else {"": event}
    kind = keys.get("type")
    for api, row, when in _TYPED.get(kind, ()) if isinstance(kind, str) else ():
        if all(_meets(event, condition) for condition in when):
            return api, row
    for heads, api, row, when in _OTHERS:
        if not any(head in keys for head in heads):
            continue
        if when:
            applies = all(_meets(event, condition) for condition in when)
        elif "text" in row:
            applies = any(isinstance(value, str) for value in find(event, row["text"]))
        else:
            applies = any(find(event, row["error"]))
        if applies:
            return api, row
    return None


def read_event(event: Any, counted: int = 0, sent: "str | None" = None) -> Any:
    """Return what an event says, or None if its shape is not known.

    `counted` is how many tokens earlier events had, and `sent` their text: a server may repeat
    both. Without `sent`, text that may be repeated is left out.
    """
    found = _row_of(event)
    if found is None:
        return None
    api, row = found
    inner = (find(event, row["in"]) or [None])[0] if "in" in row else event
    text = _digits(inner, row.get("text"))
    ids = read_ids(find(inner, row.get("ids")))
    total = _number(find(event, row.get("total")))
    so_far = None
    finish = _text(inner, row.get("finish")) or None
    error = _json_text((find(event, row.get("error")) or [None])[0] or None) or None
    # KoboldCpp and DashScope write null as a string; the other word is of watsonx.ai.
    finish = None if finish in ("null", "not_finished") or error else finish
    if "repeats" in row:
        # At the end of the text so far, a U+FFFD stands for a character that is not complete yet.
        whole, text = text, text if finish else without_last(text, "\ufffd")
        new = "" if sent is None else _new_text(text, sent)
        text, new = (whole, whole) if sent and new == text else (text, new)  # it repeats nothing
        so_far = text if len(new) < len(text) else (sent or "") + new
        text = new
        if ids is not None:
            total = len(ids) if total is None else total
            first = max(0, len(ids) - max(0, total - counted))
            # The last event may count a token that ends the answer, and has no id of it.
            ids = ids[max(first, counted) if finish and len(ids) > counted else first :]
    tokens = _tokens(find(inner, row.get("tokens")), ids)
    known = [i for i, _ in tokens if i is not None]
    pieces = [data for _, data in tokens if data is not None]
    return Said(
        api,
        text,
        _digits(inner, row.get("reasoning")),
        _calls(inner, row.get("calls")),
        tokens,
        known if known and len(known) == len(tokens) else ids,
        b"".join(pieces) if pieces and len(pieces) == len(tokens) else None,
        finish,
        finish is not None or any(find(event, row.get("over"))),
        error,
        total,
        so_far,
        _text(event, row.get("all")),
    )


def without_last(text: str, letter: str) -> str:
    """Return a text without the letters at its end that are `letter`.

    `rstrip` takes single bytes away in MicroPython.

    >>> without_last("п\ufffd\ufffd", "\ufffd")
    'п'
    """
    parts = text.split(letter)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return letter.join(parts)


def _text(event: Any, path: "str | None") -> str:
    return "".join([value for value in find(event, path) if isinstance(value, str)])


def _digits(event: Any, path: "str | None") -> str:
    """Return the text at a path: strings, and numbers, as which some servers write digits."""
    found = find(event, path)
    if len(found) == 1 and isinstance(found[0], str):
        return found[0]
    texts = [str(one) if type(one) in (int, float) else one for one in found]
    return "".join([one for one in texts if isinstance(one, str)])


def _number(found: list[Any]) -> "int | None":
    """Return a number of tokens; None if it is missing or impossible."""
    good = found and type(found[0]) is int and 0 <= found[0] <= MAX_ID
    return found[0] if good else None


def _json_text(value: Any) -> str:
    """Return a string as it is, "" for None, and JSON for another value."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _new_text(text: str, sent: str) -> str:
    """Return the new part of a text that repeats the text before it; all of one that does not.

    >>> _new_text("a b", "a "), _new_text("ach", "aha ")
    ('b', 'ach')
    """
    same = len(sent) if text.startswith(sent) else 0
    while same < len(text) and text[same : same + 1] == sent[same : same + 1]:
        same += 1
    if 2 * same < len(sent):
        return text  # SGLang's `--incremental-streaming-output` sends only what is new
    # If the server changed earlier text, the new version is appended: shown text stays.
    return text[same:]


def _calls(event: Any, paths: Any) -> list[Any]:
    calls = []
    for call in find(event, paths.get("at", "")) if paths else []:
        name = _text(call, paths.get("name"))
        given = find(call, paths.get("arguments"))
        if name or given:
            index = (find(call, paths.get("index")) or [None])[0]
            index = index if isinstance(index, (int, str)) else None
            text = _json_text(given[0]) if given else ""
            calls.append(Call(index, _text(call, paths.get("id")), name, text, "whole" in paths))
    return calls


class Calls:
    """Joins the pieces of tool calls to JSON, as a model writes it. Held: the open calls, and the
    text of all but the first. If `tagged`, calls have their ids, and come between tags.

    >>> calls = Calls()
    >>> calls.feed(Call(0, "a", "look", "", False)), calls.feed(Call(1, "b", "go", "", False))
    ('{"name": "look", "arguments": ', '')
    >>> calls.feed(Call(0, "", "", "{}", False)), calls.flush()
    ('{}', '}\\n{"name": "go", "arguments": {}}')
    """

    def __init__(self, tagged: bool = False) -> None:
        self._open: list[Any] = []  # "index", "id", "given" (arguments), "held" (not written yet)
        self._seen: list[Any] = []
        self._tags = ("<tool_call>", "</tool_call>") if tagged else ("", "")
        self.broken: bool = False  # whether arguments of a call ended before they were whole JSON

    def feed(self, call: Any) -> str:
        """Return the JSON text that a piece adds."""
        index, text = call.index, str(call.text)
        known = [one for one in self._open if call.id and one["id"] == call.id]
        known = known or [one for one in self._open if one["index"] == index][-1:]
        # A whole call may follow its bare name, or its pieces.
        waits = call.whole and known and not known[0]["given"]
        waits = waits and (index is not None or not call.id or known[0]["id"] in ("", call.id))
        seen = index in self._seen and (index is not None or not call.id or not call.whole)
        is_new = waits if call.whole else known or call.name or text.strip()
        if not is_new and (seen or (call.id,) in self._seen):
            return ""
        out = ""
        # Some servers give all calls of an answer the same index, or no index.
        other = not waits and (call.id != known[0]["id"] if call.id and known else index is None)
        if not known or (call.name and other):
            known = [{"index": index, "id": call.id, "given": "", "held": self._begin(call)}]
            self._open += known
            self._seen += [index, (call.id,)] if call.id else [index]
            while len(self._open) > 1 and (
                self._open[0]["index"] == index
                or len(self._open) > MAX_OPEN
                or _is_whole(self._open[0]["given"])
            ):
                out += self._end_first(True)
        known[0]["given"] += text
        known[0]["held"] += text
        out, self._open[0]["held"] = out + str(self._open[0]["held"]), ""
        return out

    def _begin(self, call: Any) -> str:
        begin = self._tags[0] + ("\n{" if self._seen else "{")
        if self._tags[0] and call.id:
            begin += '"id": ' + json.dumps(call.id, ensure_ascii=False) + ", "
        return begin + '"name": ' + json.dumps(call.name, ensure_ascii=False) + ', "arguments": '

    def _end_first(self, goes_on: bool) -> str:
        one = self._open.pop(0)
        # Some tools take other text than JSON.
        whole = one["given"][:1] not in ("{", "[", '"') or _is_whole(one["given"])
        self.broken = self.broken or not whole
        end = ("}" if one["given"] else "{}}") if whole else ""
        return str(one["held"]) + end + (self._tags[1] if whole or goes_on else "")

    def flush(self, goes_on: bool = False) -> str:
        """Return the end of the open calls. One that broke off has a tag only if text `goes_on`."""
        return "".join([self._end_first(goes_on or n > 1) for n in range(len(self._open), 0, -1)])


def _is_whole(text: str) -> bool:
    """Return whether there is a text, whose quotes and brackets are closed as in whole JSON."""
    parts = text.replace("\\\\", "").replace('\\"', "").split('"')
    n = "".join(parts[::2]).count
    return text != "" and len(parts) % 2 == 1 and n("{") == n("}") and n("[") == n("]")


def read_ids(values: Any) -> Any:
    """Return token ids, alone or in lists, as one list; None if there are none, or other values."""
    ids: list[Any] = []
    for value in values:
        ids += value if isinstance(value, list) else [value]
    return ids if values and all(type(i) is int and 0 <= i <= MAX_ID for i in ids) else None


def _tokens(given: list[Any], ids: Any) -> list[Any]:
    tokens = [_token(one) for one in given]
    if all(token == (None, None) for token in tokens):
        tokens = []  # an older llama-server has only the probabilities of pieces of text
    if ids and len(tokens) == len(ids):
        return [(i, tokens[n][1]) for n, i in enumerate(ids)]
    return tokens or [(i, None) for i in ids or []]


def _token(token: Any) -> tuple[Any, Any]:
    r"""Return the (id, bytes) of a token; None for each that is not given.

    A token is an object or a string: its text, `token_id:7` (vLLM) or `bytes:\xf0\x9f` (OpenAI).
    """
    token = {"token": token} if isinstance(token, str) else token
    if not isinstance(token, dict):
        return None, None
    ids = read_ids([token.get("id", token.get("token_id"))])
    number = ids[0] if ids else None
    numbers, name = token.get("bytes"), token.get("token")
    data = None
    if isinstance(numbers, list) and all(type(n) is int and 0 <= n < 256 for n in numbers):
        data = bytes(numbers)
    if not isinstance(name, str):
        return number, data
    digits = name[9:] if name[:9] == "token_id:" else ""
    if 0 < len(digits) < 11 and not digits.strip("0123456789"):
        return int(digits), data
    return number, _named_bytes(name) if data is None else data


def _named_bytes(name: str) -> "bytes | None":
    r"""Return the bytes of a token that is given as a string, or None.

    >>> _named_bytes("é"), _named_bytes(r"bytes:\xf0\x9f"), _named_bytes("\ufffd")
    (b'\xc3\xa9', b'\xf0\x9f', None)
    """
    try:
        if name[:6] == "bytes:":
            return bytes([int(byte, 16) for byte in name[6:].split("\\x")[1:]])
        return None if "\ufffd" in name else name.encode()
    except (ValueError, OverflowError):
        return None


_TABLE = _read_table()
_TYPED, _OTHERS = _index_rows(_TABLE)
_KEYS, _FIRST, _TEXTS = _known_keys(_TABLE)
