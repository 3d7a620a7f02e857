"""Values as Python prints them: `b'data: …'`, dicts, and the objects of clients' packages.

In: the lines of a file. Out: the bytes that were printed, or values with the keys of the JSON that
the objects were made from: `ChatCompletionChunk(choices=[Choice(delta=…)])` is a dict with
`choices`. Nothing is evaluated.
"""

from typing import Any

from .parse import MARK

ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}  # fmt: skip
WORDS: dict[str, Any] = {"True": True, "False": False, "None": None}
MOST_DEPTH = 40
MOST_OTHERS = 4  # than those of chunks, beside as many


class NotRead(ValueError):
    """The text is not a value printed by Python."""


def printed_bytes(lines: list[str]) -> "tuple[list[tuple[bytes, int]], list[int]] | None":
    r"""Return (bytes and the number of their line, the numbers of other lines) of a file with lines
    that are literals of bytes, or of strings that are events; None for other files. A prompt, or
    what a program printed besides, are other lines.

    >>> printed_bytes(["b'data: {}'", "b''", "b'x'"])
    ([(b'data: {}\n', 1), (b'\n', 2), (b'x\n', 3)], [])
    >>> printed_bytes(["$ python dump.py", "b'da'", r"b'ta\n'"])
    ([(b'da', 2), (b'ta\n', 3)], [1])
    """
    parts: list[tuple[bytes, int]] = []
    others = []
    for number, line in enumerate(lines, 1):
        line = line.strip()
        if not line:
            continue
        value: Any = None
        if line[:2] in ("b'", 'b"') or line[:7] in ("'data: ", '"data: '):
            try:
                value, end = _value(line, 0, 0)
            except NotRead:
                return None
            if end != len(line) or not isinstance(value, (bytes, str)):
                return None
        if value is None:
            others.append(number)
        else:
            parts.append((value.encode() if isinstance(value, str) else value, number))
    if not parts or len(others) > len(parts) + MOST_OTHERS:
        return None
    # Chunks have their line ends, lines of `iter_lines` do not.
    end_of_line = b"" if any(b"\n" in part for part, _ in parts) else b"\n"
    return [(part + end_of_line, number) for part, number in parts], others


def printed_value(line: str) -> Any:
    """Return the value that a line prints: a dict, an object as a dict, or its fields alone. Raises
    NotRead.

    >>> printed_value("Chunk(id='x', choices=[Choice(delta=Delta(content='né'), index=0)])")
    {'id': 'x', 'choices': [{'delta': {'content': 'né'}, 'index': 0}]}
    >>> printed_value("content='Hi' id='run-1'"), printed_value("text: 'Hi', finish: stop")
    ({'content': 'Hi', 'id': 'run-1'}, {'text': 'Hi', 'finish': 'stop'})
    """
    line = line.strip()
    name = _name_end(line, 0)
    if name and line[name : name + 1] in ("=", ":"):
        value, end = _fields(line, 0, 0, " ", line[name])
    else:
        value, end = _value(line, 0, 0)
    if end != len(line) or not isinstance(value, dict):
        raise NotRead
    return value


def prefix_of_printed(line: str) -> int:
    """Return the length of a log's prefix before a value printed by Python; 0 if there is none.

    >>> prefix_of_printed("INFO:root:{'a': 1}"), prefix_of_printed("{'a': ' b\\'x'}")
    (10, 0)
    >>> prefix_of_printed("(pid=1) chunk: Chunk(id=1)"), prefix_of_printed("[a] sent: text: 'b'")
    (15, 10)
    """
    found = [line.find(mark) for mark in ("{'", " b'", ' b"')]
    begins = [at for at in found if at > 0]
    at = min(begins) if begins else 0
    if at and not any(mark in line[:at] for mark in "{[('\""):
        return at + (line[at] == " ")
    # `Chunk(id=…`, or `text: '…`
    quotes = [at for at in (line.find("'"), line.find('"'), line.find("{"), len(line)) if at >= 0]
    head = line[: min(quotes)]
    at = head.find("(")
    while at >= 0:
        begin = head.rfind(" ", 0, at) + 1
        name = head[begin:at].split(".")[-1]
        if begin and name[:1].isupper() and _name_end(head, at + 1) > at + 1:
            if head[_name_end(head, at + 1) :][:1] == "=":
                return begin
        at = head.find("(", at + 1)
    begin = head[:-2].rfind(" ") + 1
    if head[-2:] == ": " and begin and _name_end(head, begin) == len(head) - 2:
        return begin
    return 0


def end_of_printed(line: str) -> int:
    """Return where a value printed by Python ends in a line, before the fields of a log.

    >>> end_of_printed("Delta(content='a | b') | timestamp=12:00:01"), end_of_printed("('a | b')")
    (22, 9)
    """
    end = 1 + max([line.rfind(mark) for mark in "'\")}]"])
    return end if line[end : end + 3] == " | " else len(line)


def looks_printed(line: str) -> bool:
    """Return whether a line may be a value printed by Python rather than JSON."""
    name = _name_end(line, 0)
    return line[:2] in ("{'", "['") or (name > 0 and line[name : name + 1] in ("=", "("))


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    at = _skip(text, at)
    letter = text[at : at + 1]
    if depth > MOST_DEPTH or not letter:
        raise NotRead
    if letter in "'\"" or (letter in "bru" and text[at + 1 : at + 2] in ("'", '"')):
        return _string(text, at)
    if letter in "[({":
        return _items(text, at, depth)
    if letter == "<":
        end = text.find(">", at)
        if end < 0:
            raise NotRead
        # <Kind.x: 'stop'>
        inner = text[at + 1 : end].partition(": ")[2].strip("'\"")
        return inner or None, end + 1
    if letter in "-0123456789.":
        return _number(text, at)
    end = _name_end(text, at)
    name = text[at:end]
    if name in WORDS:
        return WORDS[name], end
    if name and text[end : end + 1] == "(":
        return _fields(text, end + 1, depth + 1, ")")
    if not name:
        raise NotRead
    return name, end


def _fields(text: str, at: int, depth: int, end: str, sign: str = "=") -> tuple[Any, int]:
    """Return `a=1, b=2` as a dict; those of a call end at `)`, those of a line at its end."""
    out: dict[str, Any] = {}
    while True:
        at = _skip(text, at)
        if end == ")" and text[at : at + 1] == ")":
            return out, at + 1
        if at >= len(text):
            if end == ")":
                raise NotRead
            return out, at
        stop = _name_end(text, at)
        if stop > at and text[stop : stop + 1] == sign:
            value, after = _value(text, stop + 1, depth + 1)
            out[text[at:stop]] = value
            at = after
        elif end == ")":
            value, at = _value(text, at, depth + 1)
            out[str(len(out))] = value
        else:
            raise NotRead
        if text[at : at + 1] == ",":
            at += 1


def _items(text: str, at: int, depth: int) -> tuple[Any, int]:
    close = {"[": "]", "(": ")", "{": "}"}[text[at]]
    items: list[Any] = []
    pairs: dict[Any, Any] = {}
    at += 1
    while True:
        at = _skip(text, at)
        if text[at : at + 1] == close:
            return (pairs if close == "}" else items), at + 1
        value, at = _value(text, at, depth + 1)
        at = _skip(text, at)
        if close == "}" and text[at : at + 1] == ":":
            inner, at = _value(text, at + 1, depth + 1)
            pairs[value if isinstance(value, str) else str(value)] = inner
        else:
            items.append(value)
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at += 1
        elif text[at : at + 1] != close:
            raise NotRead


def _string(text: str, at: int) -> tuple[Any, int]:
    prefix = ""
    while text[at] in "bru":
        prefix += text[at]
        at += 1
    quote = text[at]
    at += 1
    out: list[int] = []
    while text[at : at + 1] != quote:
        letter = text[at : at + 1]
        if not letter:
            raise NotRead
        at += 1
        if letter != "\\" or "r" in prefix:
            out.append(ord(letter))
            continue
        kind = text[at : at + 1]
        size = {"x": 2, "u": 4, "U": 8}.get(kind, 0)
        at += 1
        if size:
            try:
                out.append(int(text[at : at + size], 16))
            except ValueError:
                raise NotRead from None
            at += size
        elif kind in ESCAPES:
            out.append(ord(ESCAPES[kind]))
        else:
            out += [92, ord(kind or " ")]
    if "b" in prefix:
        if any(code > 255 for code in out):
            raise NotRead
        return bytes(out), at + 1
    if any(not 0 <= code < 0x110000 for code in out):
        raise NotRead
    marked = [c if not 0xD800 <= c < 0xE000 else MARK + c - 0xD800 for c in out]
    return "".join([chr(c) for c in marked]), at + 1


def _number(text: str, at: int) -> tuple[Any, int]:
    end = at
    while text[end : end + 1] and text[end] in "+-0123456789.eE_":
        end += 1
    try:
        word = text[at:end]
        return (float(word) if any(mark in word for mark in ".eE") else int(word)), end
    except ValueError:
        raise NotRead from None


def _name_end(text: str, at: int) -> int:
    while text[at : at + 1].isalpha() or (text[at : at + 1] and text[at] in "_.0123456789"):
        at += 1
    return at


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in " \t":
        at += 1
    return at
