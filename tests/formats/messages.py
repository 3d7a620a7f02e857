"""Harmony, whose messages have headers, and Kimi K3, whose answer is a tree of tags."""

import html
import re

from .calls import Call, Context, code_call
from .values import (
    ANY_MARK,
    DONE,
    arguments_as_written,
    is_mark,
    json_end,
    mark,
    quoted,
    skip_space,
    spelled,
    typed,
    typed_prefix,
    types_of,
)

Read = tuple[str, str, list[Call]]  # content, reasoning, calls

# -- Harmony --------------------------------------------------------------------------------------

START, CHANNEL, MESSAGE = mark("<|start|>"), mark("<|channel|>"), mark("<|message|>")
END, RETURN, CALL = mark("<|end|>"), mark("<|return|>"), mark("<|call|>")
HARMONY = (START, CHANNEL, MESSAGE, END, RETURN, CALL, mark("<|constrain|>"))


def find_any(text: str, i: int, marks: tuple[str, ...]) -> int:
    """Return the place of the next of `marks`, or the length of the text."""
    while i < len(text) and text[i] not in marks:
        i += 1
    return i


def harmony(text: str, start: str, known: Context, cut: bool) -> Read:
    """Read messages, each a header, `<|message|>` and a body."""
    parts, calls = {"content": "", "reasoning": ""}, []
    i, channel, recipient = 0, "analysis" if start == "reasoning" else "final", ""
    in_header = start == "header" and bool(re.match(rf"[{ANY_MARK}]| ?to=", text))
    if start == "header" and not in_header and cut and " to=".startswith(" " + text.lstrip(" ")):
        return "", "", []
    while i < len(text):
        if in_header:
            end = find_any(text, i, (MESSAGE, START, END, RETURN, CALL))
            if end == len(text):
                break
            header, i = text[i:end], end + 1
            if text[end] in (RETURN, CALL):
                break
            in_header = text[end] == START
            if text[end] == MESSAGE:
                to = re.search(rf"(?:^|[\s{ANY_MARK}])to=([^\s{ANY_MARK}]+)", header)
                recipient = to[1] if to and to[1] != "assistant" else ""
                said = re.search(rf"{CHANNEL}\s*(\w+)", header)
                channel = said[1] if said else "final"
                if recipient:
                    end = find_any(text, i, (START, CHANNEL, END, RETURN, CALL))
                    ended = end < len(text) or known.ended
                    calls.append(harmony_call(recipient, header, text[i:end], ended))
                    i = end
            continue
        end = find_any(text, i, (START, CHANNEL, END, RETURN, CALL))
        body = "".join(c for c in text[i:end] if not is_mark(c))
        if channel or body.strip():
            parts["reasoning" if channel == "analysis" and not recipient else "content"] += body
        if end == len(text) or text[end] in (RETURN, CALL):
            break
        # Behind the end of a message, only text that is not space is content.
        channel, recipient = "", ""
        in_header = text[end] in (START, CHANNEL)
        i = end + (text[end] != CHANNEL)
    return parts["content"], parts["reasoning"], calls


def harmony_call(recipient: str, header: str, body: str, ended: bool) -> Call:
    """Return the call that a message to `recipient` is."""
    name = recipient.removeprefix("functions.")
    i = skip_space(body, 0)
    if recipient == "python" and "json" not in header:
        return code_call(name, body, ended)
    if i == len(body):
        return Call(None, name, "{}" if ended else "", ended)
    if body[i] in '{["':
        end, how = json_end(body, i)
        return Call(None, name, arguments_as_written(body[i:end]), how == DONE)
    if name == recipient:
        return code_call(name, body, ended)
    text = quoted(body[i:].rstrip())
    return Call(None, name, text if ended else text[:-1], ended)


# -- Kimi K3 --------------------------------------------------------------------------------------

OPEN, CLOSE, SEP = mark("<|open|>"), mark("<|close|>"), mark("<|sep|>")
KIMI_K3 = (OPEN, CLOSE, SEP)
SECTIONS = {"think": "reasoning", "response": "content"}


def kimi_k3(text: str, start: str, known: Context, cut: bool) -> Read:
    """Read `<|open|>TAG attributes<|sep|>`, text, and `<|close|>TAG<|sep|>`."""
    parts = {"content": "", "reasoning": ""}
    calls: list[Call] = []
    section = "reasoning" if start == "reasoning" else "content"
    i = 0
    while i < len(text):
        end = find_any(text, i, KIMI_K3)
        body = text[i:end]
        if section or body.strip():
            parts[section or "content"] += body
        if end == len(text) or text[end] == SEP:
            i = end + 1
            continue
        sep = find_any(text, end + 1, KIMI_K3)
        if sep == len(text):
            break
        words = text[end + 1 : sep].split(None, 1)
        tag = words[0] if words else ""
        opens, i = text[end] == OPEN, sep + (text[sep] == SEP)
        if opens and tag == "call":
            call, i = kimi_k3_call(text, i, attributes(words), known)
            calls.append(call)
        section = SECTIONS.get(tag, "") if opens else ""
    return parts["content"], parts["reasoning"], calls


def attributes(words: list[str]) -> dict[str, str]:
    found = re.findall(r'(\w+)="([^"]*)"', words[1] if len(words) > 1 else "")
    return {key: html.unescape(value) for key, value in found}


def kimi_k3_call(text: str, i: int, known_as: dict[str, str], known: Context) -> tuple[Call, int]:
    """Read the arguments of a call, up to the tag that closes it or opens something else."""
    name, out = known_as.get("tool", ""), "{"
    while True:
        tag_at = find_any(text, i, (OPEN, CLOSE))
        sep = find_any(text, tag_at + 1, KIMI_K3)
        if sep >= len(text):
            return Call(None, name, out, False), len(text)
        words = text[tag_at + 1 : sep].split(None, 1)
        tag = words[0] if words else ""
        i = sep + (text[sep] == SEP)
        if text[tag_at] == CLOSE and tag != "argument":
            return Call(None, name, out + "}", True), i if tag == "call" else tag_at
        if text[tag_at] == OPEN and tag != "argument":
            return Call(None, name, out + "}", True), tag_at
        if text[tag_at] == CLOSE:
            continue
        said = attributes(words)
        key = said.get("key", "")
        out += (", " if out != "{" else "") + quoted(key) + ": "
        types = {said["type"]} if "type" in said else types_of(known.schemas, name, key)
        end = find_any(text, i, (OPEN, CLOSE))
        if end == len(text):
            return Call(None, name, out + typed_prefix(text[i:], types), False), end
        out += typed(spelled(text[i:end]), types)
        i = end
