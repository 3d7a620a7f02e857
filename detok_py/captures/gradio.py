"""The text in the messages of Gradio's queue (`/queue/data`): first the values of all outputs, then
what changes in them.

In: the values of events. Out: the values to read in their place, with the text so far. Held: the
outputs. A change is `[operation, path, value]`: append, replace, add or delete (gradio.utils.diff).
"""

from typing import Any

from .alike import with_values
from .parse import object_at
from .sentence import FAILED

SO_FAR, WHOLE = "gradio.output", "gradio.whole"
GENERATING, COMPLETED = "process_generating", "process_completed"
OPERATIONS = ("append", "replace", "add", "delete")
MOST_BEFORE = 9  # messages before the first output


def of_queue(events: list[Any]) -> list[Any]:
    """Return events with the text so far in the place of the outputs; others as they are.

    >>> from .log import LoggedEvent
    >>> parts = [{"data": [one]} for one in ("a", [["append", [], "b"]])]
    >>> given = [LoggedEvent({"msg": GENERATING, "output": part}, *range(1, 6)) for part in parts]
    >>> [event.value["text"] for event in of_queue(given)]
    ['a', 'ab']
    """
    if not any(_outputs_of(event.value) is not None for event in events[:MOST_BEFORE]):
        return events
    held: list[Any] = []
    return with_values(events, lambda value: _read(value, held))


def _outputs_of(value: Any) -> "list[Any] | None":
    """Return the outputs in a message; None if it has none."""
    known = object_at(value).get("msg") in (GENERATING, COMPLETED)
    data = object_at(value, "output").get("data") if known else None
    return data if isinstance(data, list) else None


def _read(value: Any, held: list[Any]) -> Any:
    """Return what a message says; `held` has the outputs before it, and gets the new ones."""
    outputs = _outputs_of(value)
    if outputs is None:
        if object_at(value).get("success") is not False:
            return value
        return {"error": object_at(value, "output").get("error") or {"message": FAILED}}
    for n, output in enumerate(outputs):
        changes = isinstance(output, list) and all(_is_change(one) for one in output)
        if n >= len(held):
            held.append(output)
        elif not changes:
            held[n] = output
        elif value["msg"] == GENERATING:
            for operation, path, new in output:
                held[n] = _changed(held[n], path, operation, new)
    found = [text for text in map(_text_of, held) if text]
    text = found[0] if found else ""
    if value["msg"] == COMPLETED:
        return {"type": WHOLE, "text": text, "finish": "completed"}
    return {"type": SO_FAR, "text": text}


def _is_change(value: Any) -> bool:
    known = isinstance(value, list) and len(value) == 3 and isinstance(value[1], list)
    return known and value[0] in OPERATIONS


def _changed(value: Any, path: list[Any], operation: str, new: Any) -> Any:
    """Return a value after one change; as it is, if the path does not fit it."""
    if not path:
        if operation == "append" and isinstance(value, str) and isinstance(new, str):
            return value + new
        return new if operation in ("replace", "add") else value
    key = path[0]
    if isinstance(value, list) and isinstance(key, int):
        out: Any = list(value)
        if len(path) == 1 and operation == "add":
            return out[:key] + [new] + out[key:]
        if len(path) == 1 and operation == "delete":
            return out[:key] + out[key + 1 :]
        if key >= len(out):
            return value
    elif isinstance(value, dict):
        out = dict(value)
        if len(path) == 1 and operation == "delete":
            return {name: out[name] for name in out if name != key}
    else:
        return value
    before = out[key] if isinstance(out, list) else out.get(key)
    out[key] = _changed(before, path[1:], operation, new)
    return out


def _text_of(value: Any) -> str:
    """Return the text of an output: a string, or what the assistant has last said in a chat.

    >>> _text_of([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    'b'
    >>> _text_of([["a", "b"], ["c", "d"]])
    'd'
    """
    if isinstance(value, str):
        return value
    last = value[-1] if isinstance(value, list) and value else None
    if isinstance(last, list) and len(last) == 2:
        last = {"role": "assistant", "content": last[1]}
    said = object_at(last)
    if said.get("role") != "assistant":
        return ""
    content = said.get("content")
    parts = content if isinstance(content, list) else [content]
    texts = [one.get("text") if isinstance(one, dict) else one for one in parts]
    return "".join([text for text in texts if isinstance(text, str)])
