"""The cases of formats in the conformance suite: their steps and their verdicts.

In: a case of formats.json, which has the ids of an answer, its message, and how much of the message
is certain after each id; and the output of an adapter. Out: the case with steps, as other cases
have them, in chunks of ids; a verdict. Content and reasoning are compared without the white space
at their ends and where a call or another section interrupts them. Arguments are compared as JSON:
white space outside of strings, and how a character is escaped, do not count.
"""

import json
import re
from typing import Any, Iterator

TEXTS = ("reasoning", "content")
# A string, up to an escape that is cut; or a character outside strings.
_JSON = re.compile(r'"((?:[^"\\]|\\u[0-9A-Fa-f]{4}|\\[^u])*)("?)|\S')
_HIGH = "".join([chr(unit) for unit in range(0xD800, 0xDC00)])
_TOKEN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


def with_steps(case: dict[str, Any], suite: dict[str, Any], chunk: int = 1) -> dict[str, Any]:
    """Return a case as adapters take it: with its tokenizer, the ids that end a turn, and a push
    for each `chunk` ids; 0 puts all ids into one.
    """
    name = case["options"]["format"]
    base = suite["vocabularies"]["formats"]
    tokens, first = suite["formats"][name]["tokens"], len(base["model"]["vocab"])
    added = [
        {"id": first + n, "content": token, **_TOKEN, "special": True}
        for n, token in enumerate(tokens)
    ]
    ends = [first + tokens.index(token) for token in suite["formats"][name]["ends"]]
    ids, out = case["ids"], case["out"]
    steps, shown, size = [], 0, chunk or len(ids)
    for at in range(0, len(ids), size):
        chunk_ids = ids[at : at + size]
        certain = case["certain"][at + len(chunk_ids) - 1]
        steps.append({"do": "push", "in": chunk_ids, "out": list(_cut(out, shown, certain))})
        shown = certain
    steps.append({"do": "flush", "out": list(_cut(out, shown, None))})
    return {
        **case,
        "input": "ids",
        "vocabulary": f"formats/{name}",
        "tokenizer": {**base, "added_tokens": added},
        "ends": ends,
        "steps": steps,
    }


def _cut(out: list[Any], begin: int, end: int | None) -> Iterator[dict[str, Any]]:
    """Yield the deltas of an answer between two counts of characters; the name of a call counts as
    one character. Without `end`, yield all the rest.
    """
    at = calls = 0
    for run in out:
        call = "call" in run
        text = run["arguments"] if call else next(iter(run.values()))
        before, at = at + call, at + call + len(text)
        last = at if end is None else min(end, at)
        part = text[max(0, begin - before) : max(0, last - before)]
        named = call and begin < before <= last
        if call and (part or named):
            yield {"call": calls, **({"name": run["call"]} if named else {}), "arguments": part}
        elif part:
            yield {next(iter(run)): part}
        calls += call


class Message:
    """What an answer has said so far: two texts, and calls as pairs of name and arguments."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = dict.fromkeys(TEXTS, "")
        self.calls: list[list[str]] = []

    def take(self, out: Any) -> "Message":
        """Take what a step gave: None, a delta, or a list of deltas. Return the message so far.

        >>> message = Message().take(["content", "Hi"])
        >>> message = message.take([{"call": 0, "name": "f", "arguments": '{"a":'}])
        >>> message.take({"content": "!", "calls": [{"call": 0, "arguments": " 1}"}]}).texts
        {'reasoning': '', 'content': 'Hi!'}
        >>> message.calls
        [['f', '{"a": 1}']]
        """
        if isinstance(out, dict) and "shown" in out:
            return Message().take(out["shown"])
        if isinstance(out, (list, tuple)) and not (out and isinstance(out[0], str)):
            for delta in out:
                self._add(delta)
        elif out:
            self._add(out)
        return self

    def _add(self, delta: Any) -> None:
        if not isinstance(delta, dict):
            channel, text = delta
            delta = {channel: text}
        for name, value in delta.items():
            if name in TEXTS:
                self.texts[name] += value or ""
        for call in delta.get("calls") or ([delta] if "call" in delta else []):
            self._add_call(call)

    def _add_call(self, call: dict[str, Any]) -> None:
        at = call.get("call", len(self.calls))
        self.calls += [["", ""] for _ in range(at + 1 - len(self.calls))]
        self.calls[at][0] += call.get("name") or ""
        given = call.get("arguments")
        self.calls[at][1] += given if isinstance(given, str) else _written(given)

    def parts(self, seams: dict[str, set[int]]) -> dict[str, Any]:
        """Return what is compared, part by part, by its name."""
        found: dict[str, Any] = {name: _closed(self.texts[name], seams[name]) for name in TEXTS}
        for at, (name, arguments) in enumerate(self.calls):
            found[f"the name of call {at}"] = name
            found[f"the arguments of call {at}"] = json_characters(arguments)
        return found


def seams_of(out: list[Any]) -> dict[str, set[int]]:
    """Return where the texts of an answer are interrupted: after how many characters that are not
    white space. The beginning of a text counts too.

    >>> out = [{"content": "a b "}, {"call": "f", "arguments": ""}, {"content": "c"}]
    >>> seams_of(out)["content"]
    {0, 2, 3}
    """
    seams = {name: {0} for name in TEXTS}
    for run in out:
        for name in TEXTS:
            seams[name].add(max(seams[name]) + len("".join(run.get(name, "").split())))
    return seams


def _closed(text: str, seams: set[int]) -> str:
    """Return a text without the white space at its seams and at its end."""
    out, count = [], 0
    for character in text.rstrip():
        if not character.isspace():
            count += 1
        elif count in seams:
            continue
        out.append(character)
    return "".join(out)


def _written(arguments: Any) -> str:
    return "" if arguments is None else json.dumps(arguments, ensure_ascii=False)


def json_characters(text: str) -> list[str]:
    """Return the characters of JSON, which may be cut anywhere, without what a writer may choose:
    white space outside strings, and escapes. The quote at either end of a string is two quotes.

    >>> json_characters('{ "\\\\u00e9\\\\"": 1')
    ['{', '""', 'é', '"', '""', ':', '1']
    """
    out: list[str] = []
    for found in _JSON.finditer(text):
        if found[1] is None:
            out.append(found[0])
            continue
        try:
            string = str(json.loads(f'"{found[1]}"', strict=False))
        except ValueError:
            string = found[1]
        closed = bool(found[2])
        # Half of a surrogate pair waits for the other.
        out += ['""', *(string if closed else string.rstrip(_HIGH))] + ['""'] * closed
        if not closed:
            break
    return out


def compared(mine: dict[str, Any], theirs: dict[str, Any]) -> tuple[str, str]:
    """Compare the parts shown so far with those that are certain; return the verdict, and why."""
    verdict, why = "right", ""
    for name in {**theirs, **mine}:
        one, other = mine.get(name, ""), theirs.get(name, "")
        if name in mine and name in theirs and one == other:
            continue
        if name in theirs and (name not in mine or one == other[: len(one)]):
            rest = other[len(one) :] if name in mine else other
            if verdict == "right":
                verdict, why = "late", f"{name}: {_told(rest)} is certain already"
        elif name not in theirs or one[: len(other)] == other:
            rest = one[len(other) :] if name in theirs else one
            return "early", f"{name}: {_told(rest)} is not certain yet"
        else:
            return "early", f"{name}: {_told(one)} is shown, {_told(other)} is certain"
    return verdict, why


def difference(shown: Message, wanted: Message, seams: dict[str, set[int]]) -> str:
    """Say how two whole answers differ; "" if they say the same."""
    mine, theirs = shown.parts(seams), wanted.parts(seams)
    for name in {**theirs, **mine}:
        if name not in mine:
            return f"{name} is missing"
        if name not in theirs:
            return f"there is {name}: {_told(mine[name])}"
    for name in theirs:
        if mine[name] != theirs[name]:
            at = name.rpartition(" ")[2]
            if "arguments" in name:
                values = [_value(each.calls[int(at)][1]) for each in (shown, wanted)]
                if values[0] is not None and values[0] == values[1]:
                    continue
            return f"{name}: {_told(mine[name])}, not {_told(theirs[name])}"
    return ""


def _value(text: str) -> str | None:
    """Return JSON in one normal form; None if the text is not JSON."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return None


def as_json(value: Any) -> str:
    """Return a value as JSON in ASCII, in which characters that look alike differ."""
    return json.dumps(value, separators=(",", ":"), default=repr)


def _told(part: Any) -> str:
    """Return a part as JSON in ASCII: at most 60 characters."""
    text = part if isinstance(part, str) else "".join([each[:1] for each in part])
    return as_json(text[:60]) + "..." * (len(text) > 60)


def played(case: dict[str, Any], stream: Any, outs: list[Any]) -> tuple[str, str]:
    """Return the verdict on what a stream gives, step by step; `outs` collects that."""
    shown, wanted, seams = Message(), Message(), seams_of(case["out"])
    first: dict[str, str] = {}
    for number, step in enumerate(case["steps"], 1):
        push = step["do"] == "push"
        outs.append(stream.push(step["in"]) if push else stream.flush())
        shown, wanted = shown.take(outs[-1]), wanted.take(step["out"])
        verdict, why = compared(shown.parts(seams), wanted.parts(seams))
        first.setdefault(verdict, f"step {number}, {step['do']}: {why}")
    if differs := difference(shown, wanted, seams) or _call_differs(case, stream):
        return "wrong", differs
    verdict = next((verdict for verdict in ("early", "late") if verdict in first), "right")
    return verdict, first[verdict] if verdict != "right" else ""


def _call_differs(case: dict[str, Any], stream: Any) -> str:
    """Say what a stream's `calls()` has wrong, if it has that method."""
    if getattr(stream, "calls", None) is None:
        return ""
    calls = [run for run in case["out"] if "call" in run]
    for at, (given, call) in enumerate(zip(stream.calls(), calls)):
        for name, value in (("id", call.get("id")), ("complete", call.get("complete", True))):
            if name in given and value is not None and given[name] != value:
                return f"call {at} has {name} {as_json(given[name])}, not {as_json(value)}"
    return ""
