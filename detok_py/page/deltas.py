"""Open a ChatStream with JavaScript's options, and convert its deltas for JavaScript.

In: the options of web/src/detok-stream.js, and the deltas of a ChatStream. Out: the ChatStream, and
lists that become JSON.
"""

from typing import Any, Sequence

from ..decode.channels import CONTENT, TOOL_CALL
from ..decode.chat import ChatStream
from ..decode.detokenizer import Detokenizer
from ..decode.utf8 import StreamingDetokenizer


def open_chat(
    options: dict[str, Any],
    detokenizer: "Detokenizer | StreamingDetokenizer",
    tags: bool = False,
    known: "str | None" = None,
    start: str = "",
) -> ChatStream:
    """Return a ChatStream with the text options that JavaScript gives (`TextOptions` of
    web/src/detok-stream.js). `tags` is the default for finding tags and markers, `known` the name
    of a format that takes precedence over the vocabulary's, and `start` what the answer begins in,
    if that is known.

    The format "auto" is the known format, unless the options have tags of their own.
    """
    reasoning, tools = options.get("reasoning", tags), options.get("tools", tags)
    own_tags = options.get("reasoning", True) is not True or options.get("tools", True) is not True
    name = options.get("format", "auto")
    if name is None:
        reasoning = tools = None
    elif name == "auto":
        vocabulary = getattr(detokenizer, "vocabulary", None)
        name = None if own_tags else known or getattr(vocabulary, "chat_format", None)
        if name is not None:
            from ..decode.format_channels import known_format

            name = known_format(name)
    settings: dict[str, Any] = {}
    if name is not None:
        settings = {"format": name, "tool_schemas": options.get("toolSchemas")}
    if name is None or own_tags:  # a format has tags of its own: ChatStream refuses both
        settings["reasoning"] = ("<think>", "</think>") if reasoning is True else reasoning or None
        settings["tools"] = ("<tool_call>", "</tool_call>") if tools is True else tools or None
    begins: Any = start
    if options.get("startWithReasoning"):
        begins = "reasoning"
    elif name is None and not reasoning:
        begins = "content"
    elif start == "header" and name != "harmony":
        begins = ""
    stop = options.get("stop") or ()
    return ChatStream(
        detokenizer,
        stop=[stop] if isinstance(stop, str) else [each for each in stop if each],
        # With details the engine decides where the answer ends, and an end token has a row.
        eos_ids=None if options.get("details") else (),
        start=begins or "auto",
        trim_artifacts=bool(options.get("trimArtifacts", tags or name is not None)),
        include_stop=bool(options.get("includeStop")),
        **settings,
    )


def open_call(calls: list[Any]) -> "int | None":
    """Return the number of the call that is not complete; None if there is none."""
    last = calls[-1] if calls else None
    return None if last is None or getattr(last, "complete", True) else len(calls) - 1


def crossed(
    deltas: list[Any], calls: "Sequence[Any]" = (), open: "int | None" = None, whole: bool = False
) -> list[list[Any]]:
    """Return deltas as they cross to JavaScript: `[channel, text]` each, and of a call in a format
    `[channel, text, {"call", "name", "id", "complete"}]`.

    `calls` are those of the stream now, and `open` is the number of the call that was not complete
    before. `whole` says that the one JSON value of `format="json"` has become complete: the last
    delta gets `{"complete"}`. A call or value that ended without a delta gets an empty one.
    """
    out: list[list[Any]] = []
    for delta in deltas:
        row: list[Any] = [delta.channel, delta.text]
        if delta.call is not None:
            its = {"call": delta.call}
            if delta.name is not None:
                its["name"] = delta.name
                if calls[delta.call].id is not None:
                    its["id"] = calls[delta.call].id
            row.append(its)
            open = delta.call if open is None else open
        out.append(row)
    for n in range(len(calls) if open is None else open, len(calls)):
        if calls[n].complete:
            found = [row[2] for row in out if len(row) > 2 and row[2]["call"] == n]
            if not found:
                found = [{"call": n}]
                out.insert(0, [TOOL_CALL, "", found[0]])
            found[-1]["complete"] = True
            if calls[n].id is not None:
                found[-1]["id"] = calls[n].id
    if whole:
        out = out or [[CONTENT, ""]]
        out[-1].append({"complete": True})
    return out
