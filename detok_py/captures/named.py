"""What the name of a server-sent event (its line `event:`) says of its data, and the patches in
which the pages of ChatGPT and DeepSeek get their answers.

In: the lines of events; the values of events. Out: the values to read in their place. Held: the
path and the operation of the last patch, which the next one may leave out.
"""

from typing import Any

from .alike import with_values
from .parse import chars_of, object_at

# A string alone is text in events without a name, and in those of such a name: not in
# `event: connected`.
TEXTS = ("", "data", "message", "text", "token", "chunk", "delta", "content", "answer", "output")
FAILED = ("error", "exception", "failed")
ENDS = ("done", "end", "complete", "completed", "finish", "finished", "stop")
REPLACES = "replace"
# Words of what is a part of an answer: its end or its error is not the answer's.
PARTS = (
    "agent", "block", "call", "content", "function", "node", "part", "plan", "reasoning",
    "retriever", "search", "step", "task", "thinking", "tool",
)  # fmt: skip
SIGNS = (b"error", b"exception", b"failed", REPLACES.encode())
PATCHES = ("chatgpt.patch", "deepseek.patch")
OF_TEXT = ("/message/content/parts/", "response/content")
OF_THOUGHTS = ("/message/content/thoughts/", "response/thinking_content")
STATUS = ("/message/status", "response/status")
UNDER_WAY = ("in_progress", "WIP")
MOST_BEFORE = 99  # events before the first patch
MOST_LOOKED_AT = 4  # lines before and after the data of an event


def name_of(lines: list[Any], n: int) -> str:
    """Return the name of the event that begins in the line `n`, from 0; "" if it has none.

    >>> lines = [b"event: a", b"", b"event: error", b"data: {}"]
    >>> name_of(lines, 2), name_of(lines, 3), name_of(lines[2:][::-1], 0), name_of([b"data: {}"], 0)
    ('error', 'error', 'error', '')
    """
    for some in (lines[max(0, n - MOST_LOOKED_AT) : n][::-1], lines[n : n + MOST_LOOKED_AT]):
        for line in some:
            if line.startswith(b"event:"):
                return chars_of(line[6:].strip())
            if not line.strip():
                break
    return ""


def names_that_matter(lines: list[bytes]) -> set[int]:
    """Return which lines, from 0, name an event whose data is read in another way for its name.

    >>> sorted(names_that_matter([b"event: a", b"data: []", b"event: error", b"data: []"]))
    [2]
    """
    out = set()
    for n, line in enumerate(lines):
        if line[:6] == b"event:":
            data = b"".join(lines[n + 1 : n + 2])[5:].strip()
            if any(sign in line for sign in SIGNS) or data[:1] == b'"' or data == b"{}":
                out.add(n)
    return out


def value_named(name: str, value: Any) -> Any:
    """Return the value to read for an event of such a name; None if it is no text of the answer.

    >>> value_named("error", "Out of memory"), value_named("connected", "ok")
    ({'error': 'Out of memory'}, None)
    >>> value_named("message", "a"), value_named("replace_response", {"text": "b"})
    ('a', {'replaced': 'b'})
    >>> value_named("done", {}), value_named("tool_end", {}), value_named("tool_error", {"a": 1})
    ({'done': True}, {}, {'a': 1})
    """
    words = name.lower().replace("-", "_").split("_")
    is_part = any(word in PARTS or word[:-1] in PARTS for word in words)
    if not is_part and any(word in FAILED for word in words):
        known = any(key in object_at(value) for key in ("error", "type", "detail"))
        return value if known or not value else {"error": value}
    if REPLACES in words and isinstance(value, dict) and "event" not in value:
        text = value.get("text", value.get("content"))
        return {"replaced": text}
    if not is_part and words[-1] in ENDS and value == {}:
        return {"done": True}
    return None if isinstance(value, str) and words[-1] not in TEXTS else value


def without_patches(events: list[Any]) -> list[Any]:
    """Return events with the text in the place of a page's patches; others as they are.

    >>> from .log import LoggedEvent
    >>> parts = [{"p": "/message/content/parts/0", "o": "append", "v": "a"}, {"v": "b"}]
    >>> given = [LoggedEvent(part, 1, False, None, False, False) for part in parts]
    >>> [event.value["text"] for event in without_patches(given)]
    ['a', 'b']
    """
    first = [event.value for event in events[:MOST_BEFORE]]
    if not any(_is_patch(value) and "p" in value and "o" in value for value in first):
        return events
    paths = [value["p"] for value in first if _is_patch(value) and "p" in value]
    kind = PATCHES[any(str(path).startswith("response/") for path in paths)]
    last = ["", ""]
    return with_values(
        events, lambda value: _patched(value, last, kind) if _is_patch(value) else value
    )


def _is_patch(value: Any) -> bool:
    return isinstance(value, dict) and "v" in value and not set(value) - {"p", "o", "v", "c"}


def _patched(patch: Any, last: list[Any], kind: str) -> Any:
    """Return what a patch adds; `last` is the path and the operation of the one before it."""
    last[:] = [patch.get("p", last[0]), patch.get("o", last[1])]
    said = {"type": kind, "text": "", "reasoning": "", "finish": ""}
    parts = [[last[0], patch["v"]]]
    if last[1] == "patch" and isinstance(patch["v"], list):
        parts = [[one.get("p"), one["v"]] for one in patch["v"] if _is_patch(one)]
    for path, text in parts:
        if not isinstance(path, str) or not isinstance(text, str):
            continue
        if path.startswith(OF_TEXT):
            said["text"] += text
        elif path.startswith(OF_THOUGHTS):
            said["reasoning"] += text
        elif path in STATUS and text not in UNDER_WAY:
            said["finish"] = text
    return said
