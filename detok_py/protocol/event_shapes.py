"""Where the events of each engine have their text, token ids, bytes and finish reason.

In: the JSON of one event. Out: its fields by one set of names, or None for an event of no known
shape.

>>> read_event({"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]})
Said(text='hi', ids=None, data=None, finish='stop', total=None)
>>> read_event({"token": {"id": 7, "text": "hi"}}).ids, read_event({"usage": {}})
([7], None)
"""

from collections import namedtuple
from typing import Any

from .wire import MAX_ID

# text: str, "" if the event has none · ids: the new token ids, or None · data: the bytes of its
# tokens, or None · finish: why the stream ends, in the engine's own word, or None · total: how many
# tokens there are so far, or None if the engine does not count them
Said = namedtuple("Said", ["text", "ids", "data", "finish", "total"])

# An event has the first shape whose `sign` it has; if a shape has no sign, its text is the sign. Of
# several paths the first that leads to a value counts. "*" collects a value from each item of a
# list. `kind` must be part of the event's "type".
_SGLANG = "output_ids meta_info"
_SHAPES: Any = (
    # llama-server
    dict(
        sign="completion_probabilities",
        text="content",
        ids="completion_probabilities.*.id",
        bytes="completion_probabilities.*.bytes",
        finish="stop_type",
        total="tokens_predicted",
    ),
    # SGLang, where each event has all ids and all the text so far. That text is not read.
    dict(
        sign=_SGLANG,
        ids="output_ids",
        finish="meta_info.finish_reason.type meta_info.finish_reason",
        total="meta_info.completion_tokens",
    ),
    # text-generation-inference
    dict(
        sign="token.id token.text details.finish_reason",
        text="token.text",
        ids="token.id",
        finish="details.finish_reason",
    ),
    # OpenAI's completions and chat completions, vLLM
    dict(
        sign="choices",
        text="choices.0.delta.content choices.0.delta.text choices.0.message.content choices.0.text",
        ids="choices.0.token_ids",
        finish="choices.0.finish_reason",
    ),
    # OpenAI's responses, AI SDK
    dict(text="delta", kind="text"),
    # Gemini
    dict(
        sign="candidates",
        text="candidates.0.content.parts.0.text",
        finish="candidates.0.finishReason",
    ),
    # Anthropic
    dict(text="delta.text"),
    # Ollama
    dict(sign="done_reason", text="message.content response", finish="done_reason"),
    dict(text="message.content"),
    dict(text="response"),
    # llama-server without bytes
    dict(text="content", finish="stop_type", total="tokens_predicted"),
    dict(text="text"),
)


def read_event(event: Any, counted: int = 0) -> Any:
    """Return what an event says, or None if it has no known shape.

    `counted` is how many tokens earlier events had. Engines that repeat all ids need it.
    """
    if not isinstance(event, dict):
        return None
    kind = str(event.get("type"))
    # What ends with "done" repeats all the text; reasoning is no part of the answer.
    if kind[-5:] == ".done" or "reasoning" in kind:
        return None
    for shape in _SHAPES:
        text = find(event, shape.get("text"))
        text = text if isinstance(text, str) else None
        sign = find(event, shape["sign"]) if "sign" in shape else text
        if sign is None or shape.get("kind", "") not in kind:
            continue
        ids = read_ids(find(event, shape.get("ids")))
        finish = find(event, shape.get("finish"))
        total = find(event, shape.get("total"))
        total = total if isinstance(total, int) else None
        if ids is not None and shape.get("sign") == _SGLANG:
            total = len(ids) if total is None else total
            ids = ids[max(0, len(ids) - max(0, total - counted)) :]
        return Said(
            text or "",
            ids,
            read_bytes(find(event, shape.get("bytes"))),
            finish if isinstance(finish, str) else None,
            total,
        )
    return None


def find(event: Any, paths: Any) -> Any:
    """Return the value at the first of some paths that leads to one, or None.

    >>> find({"a": [{"b": 1}, {"b": 2}]}, "c a.*.b"), find({"a": [{"b": 1}]}, "a.0.b")
    ([1, 2], 1)
    """
    for path in (paths or "").split():
        found = _at(event, path.split("."))
        if found is not None:
            return found
    return None


def _at(value: Any, path: list[str]) -> Any:
    for i, name in enumerate(path):
        if name == "*":
            rest = path[i + 1 :]
            return [_at(item, rest) for item in value] if isinstance(value, list) else None
        if name == "0":
            value = value[0] if isinstance(value, list) and value else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value


def read_ids(value: Any) -> Any:
    """Return token ids as a list, or None if the value is something else."""
    value = [value] if type(value) is int else value
    good = isinstance(value, list) and all(type(i) is int and 0 <= i <= MAX_ID for i in value)
    return value if good else None


def read_bytes(value: Any) -> Any:
    """Return the bytes of a list of tokens, each a list of numbers; or None."""
    if not value or not all(isinstance(piece, list) for piece in value):
        return None
    try:
        return b"".join([bytes(piece) for piece in value])
    except (TypeError, ValueError):
        return None
