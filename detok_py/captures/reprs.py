"""Values as programs print them: `b'data: …'`, dicts, and the objects of clients' packages.

In: the lines of a file. Out: the bytes that were printed, or values with the keys of the JSON that
the objects were made from: `ChatCompletionChunk(choices=[Choice(delta=…)])` is a dict with
`choices`. Python, Node, Ruby and Rust are read; printed.py tells them apart. Nothing is evaluated.
"""

from typing import Any

from .joined import is_whole
from .parse import MARK, is_utf8
from .printed import GO, NODE, PYTHON, RUBY, RUST, begin_of_value, name_end

ESCAPES = {"e": "\x1b", "`": "`", "n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}  # fmt: skip
WORDS: dict[str, Any] = {
    "True": True, "true": True, "False": False, "false": False,
    "None": None, "null": None, "nil": None, "undefined": None,
}  # fmt: skip
ENDS_OF_VALUE = ("", " ", "\n", ",", ")", "]", "}")
MOST_DEPTH = 40
MOST_OF_PREFIX = 1000  # characters
MOST_OTHERS = 4  # than those of chunks, beside as many


class NotRead(ValueError):
    """The text is not a value printed by a program."""


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
                value, end = _Printed(line, PYTHON, []).value(0, 0)
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


def lines_of_literal(line: bytes, at: int) -> list[bytes]:
    r"""Return the lines of a string, or of bytes, that Python or Node printed, if the event at a
    place is in one and whole; else [].

    >>> lines_of_literal(b"got b'data: {}\\n\\n'", 6)
    [b'data: {}', b'', b'', b'']
    """
    quote = max(line.rfind(b"'data:", 0, at + 5), line.rfind(b"'event:", 0, at))
    if quote < 0 or not is_utf8(line):
        return []
    try:
        text = line[quote - (line[quote - 1 : quote] == b"b") :].decode()
        value, end = _Printed(text, PYTHON, []).value(0, 0)
        said = value if isinstance(value, bytes) else value.encode()
    except ValueError:
        return []
    rest = text[end:]
    found = [one.rstrip(b"\r") for one in said.split(b"\n")]
    events = [one for one in found if one.startswith(b"data:")]
    is_one = events and "'data:" not in rest and "'event:" not in rest
    return found + [b""] if is_one and all(is_whole(one, b"") for one in events) else []


def printed_value(text: str, left_out: "list[tuple[int, str]] | None" = None) -> Any:
    """Return the value that a text prints: a dict, an object as a dict, its fields alone, or a list
    of dicts. Add to `left_out` what was printed in place of a part, such as `[Object]`, behind the
    number of lines that end before it. Raises NotRead.

    >>> printed_value("Chunk(id='x', choices=[Choice(delta=Delta(content='né'), index=0)])")
    {'id': 'x', 'choices': [{'delta': {'content': 'né'}, 'index': 0}]}
    >>> printed_value("content='Hi' id='run-1'"), printed_value("text: 'Hi', finish: stop")
    ({'content': 'Hi', 'id': 'run-1'}, {'text': 'Hi', 'finish': 'stop'})
    >>> printed_value('Chunk { text: Some("Hi"), finish: Some(ToolCalls), usage: None }')
    {'text': 'Hi', 'finish': 'tool_calls', 'usage': None}
    """
    text = text.strip()
    language = begin_of_value(text)[1] or PYTHON
    if language == GO:
        raise NotRead
    printed = _Printed(text, language, [] if left_out is None else left_out)
    name = name_end(text, 0)
    if language == PYTHON and name and text[name : name + 1] in ("=", ":"):
        value, end = printed.fields(0, 0, " ", text[name])
    else:
        value, end = printed.value(0, 0)
    many = isinstance(value, list) and language != PYTHON and value
    items = value if many else [value]
    if end != len(text) or not all(isinstance(item, dict) for item in items):
        raise NotRead
    return value


def prefix_of_printed(line: str) -> int:
    """Return the length of a log's prefix before a printed value; 0 if there is none.

    >>> prefix_of_printed("INFO:root:{'a': 1}"), prefix_of_printed("{'a': ' b\\'x'}")
    (10, 0)
    >>> prefix_of_printed("(pid=1) chunk: Chunk(id=1)"), prefix_of_printed("[a] sent: text: 'b'")
    (15, 10)
    >>> prefix_of_printed("chunk: { a: 1 }"), prefix_of_printed("Chunk { a: 1 }")
    (7, 0)
    >>> prefix_of_printed("12:00:01 DEBUG chunk=b'data'"), prefix_of_printed("Chunk(data=b'a')")
    (21, 0)
    """
    begin, language = begin_of_value(line)
    if language:
        return begin
    found = [line.find(mark) for mark in ("{'", " b'", ' b"', "=b'", '=b"')]
    begins = [at for at in found if at > 0]
    at = min(begins) if begins else 0
    if at and not _is_inside(line[:at]):
        return at + (line[at] in " =")
    # `Chunk(id=…`, or `text: '…`
    quotes = [at for at in (line.find("'"), line.find('"'), line.find("{"), len(line)) if at >= 0]
    head = line[: min(quotes + [MOST_OF_PREFIX])].split("\n")[0]
    at = head.find("(")
    while at >= 0:
        begin = head.rfind(" ", 0, at) + 1
        name = head[begin:at].split(".")[-1]
        if begin and name[:1].isupper() and name_end(head, at + 1) > at + 1:
            if head[name_end(head, at + 1) :][:1] == "=":
                return begin
        at = head.find("(", at + 1)
    begin = head[:-2].rfind(" ") + 1
    is_text = line[len(head) : len(head) + 1] in ("'", '"')
    if head[-2:] == ": " and is_text and begin and name_end(head, begin) == len(head) - 2:
        return begin
    return 0


def _is_inside(head: str) -> bool:
    """Return whether a text opens a bracket or a string that it does not close."""
    pairs = [head.count(a) > head.count(b) for a, b in ("()", "[]")]
    return any(pairs) or any(mark in head for mark in "{'\"")


def end_of_printed(line: str) -> int:
    """Return where a value printed by Python ends in a line, before the fields of a log.

    >>> end_of_printed("Delta(content='a | b') | timestamp=12:00:01"), end_of_printed("('a | b')")
    (22, 9)
    """
    end = 1 + max([line.rfind(mark) for mark in "'\")}]"])
    return end if line[end : end + 3] == " | " else len(line)


def looks_printed(line: str) -> bool:
    """Return whether a line, with those that follow it, may be a printed value, not JSON."""
    if begin_of_value(line)[1] not in ("", GO):
        return True
    name = name_end(line, 0)
    return line[:2] in ("{'", "['") or (name > 0 and line[name : name + 1] in ("=", "("))


class _Printed:
    """A text with a value that a program printed. Each method returns what stands at a position,
    and where that ends. Raises NotRead.
    """

    def __init__(self, text: str, language: str, left_out: list[tuple[int, str]]) -> None:
        self.text = text
        self.language = language
        self.left_out = left_out
        self.counted = self.lines = 0  # how much has been counted, and how many lines end in it

    def value(self, at: int, depth: int) -> tuple[Any, int]:
        """Return any value."""
        text, at = self.text, self._skip(at)
        letter, after = text[at : at + 1], text[at + 1 : at + 2]
        if depth > MOST_DEPTH or not letter:
            raise NotRead
        if letter in "'\"`" or (letter in "bru" and after in ("'", '"')):
            return self._strings(at)
        if letter == "[" and self.language == NODE and after.isalpha():
            return self._left_out(at, depth)
        if letter in "[({":
            return self._items(at, depth)
        if letter == "<":
            return self._between_angles(at, depth)
        if letter in "-0123456789.":
            return self._number(at)
        if letter == ":" and self.language == RUBY:  # a symbol
            end = name_end(text, at + 1)
            return (text[at + 1 : end], end) if end > at + 1 else self._strings(at + 1)
        at += 2 * (self.language == RUST and text[at : at + 2] == "r#")
        end = name_end(text, at)
        name = text[at:end]
        if not name:
            raise NotRead
        if text[end : end + 1] == "(":
            return self._call(name, end, depth)
        if text[end : end + 2] == " {" and self.language in (NODE, RUST):
            return self._items(end + 1, depth)
        if name in WORDS:
            return WORDS[name], end
        return (_in_snake_case(name) if self.language == RUST else name), end

    def fields(self, at: int, depth: int, end: str, sign: str = "=") -> tuple[Any, int]:
        """Return `a=1, b=2` as a dict; those of a call end at `)`, those of a line at its end."""
        text = self.text
        out: dict[str, Any] = {}
        while True:
            at = self._skip(at)
            if end == ")" and text[at : at + 1] == ")":
                return out, at + 1
            if at >= len(text):
                if end == ")":
                    raise NotRead
                return out, at
            stop = name_end(text, at)
            if stop > at and text[stop : stop + 1] == sign:
                value, after = self.value(stop + 1, depth + 1)
                out[text[at:stop]] = value
                at = after
            elif end == ")":
                value, at = self.value(at, depth + 1)
                out[str(len(out))] = value
            else:
                raise NotRead
            at = self._skip(at) if end == ")" else at
            if text[at : at + 1] == ",":
                at += 1

    def _call(self, name: str, at: int, depth: int) -> tuple[Any, int]:
        """Return `Name(a=1)`. What Rust has in Some or Ok stands for itself; behind Node's `Map(1)`
        or `Array(2)` comes the value.
        """
        value, at = self.fields(at + 1, depth + 1, ")")
        if self.language == RUST and name in ("Some", "Ok") and list(value) == ["0"]:
            return value["0"], at
        if self.language == NODE and self.text[at : at + 2] in (" {", " ["):
            return self._items(at + 1, depth)
        return value, at

    def _left_out(self, at: int, depth: int) -> tuple[Any, int]:
        """Return None for Node's `[Object]`, and the object behind `[Object: null prototype]`."""
        end = self.text.find("]", at)
        if end < 0:
            raise NotRead
        if self.text[end + 1 : end + 3] == " {":
            return self._items(end + 2, depth)
        if not self.text.startswith("[Function", at):
            self.left_out.append((self._line_of(at), self.text[at : end + 1]))
        return None, end + 1

    def _between_angles(self, at: int, depth: int) -> tuple[Any, int]:
        end = self.text.find(">", at)
        if end < 0:
            raise NotRead
        if self.text[at : at + 6] == "<ref *":  # Node: [Circular *1] is the value behind it
            return self.value(end + 1, depth + 1)
        # <Kind.x: 'stop'>
        inner = self.text[at + 1 : end].partition(": ")[2].strip("'\"")
        return inner or None, end + 1

    def _items(self, at: int, depth: int) -> tuple[Any, int]:
        text = self.text
        close = {"[": "]", "(": ")", "{": "}"}[text[at]]
        items: list[Any] = []
        pairs: dict[Any, Any] = {}
        comma = False
        at += 1
        while True:
            at = self._skip(at)
            if text[at : at + 1] == close:
                break
            if text[at : at + 3] == "..." and self.language == NODE:
                at = self._more(at)
                continue
            value, at = self.value(at, depth + 1)
            at = self._skip(at)
            size = 1 if text[at : at + 1] == ":" else 2 if text[at : at + 2] == "=>" else 0
            if close == "}" and size:
                inner, at = self.value(at + size, depth + 1)
                pairs[value if isinstance(value, str) else str(value)] = inner
            else:
                items.append(value)
            at = self._skip(at)
            if text[at : at + 1] == ",":
                at, comma = at + 1, True
            elif text[at : at + 1] != close:
                raise NotRead
        if close == ")" and len(items) == 1 and not comma:
            return items[0], at + 1  # a long string, in parts
        return (pairs if close == "}" else items), at + 1

    def _more(self, at: int) -> int:
        """Return where Node's `... 3 more items` or `... 9 more characters` ends."""
        end = at
        while self.text[end : end + 1] not in ("", ",", "]", "}", "\n"):
            end += 1
        self.left_out.append((self._line_of(at), self.text[at:end].strip()))
        return end

    def _line_of(self, at: int) -> int:
        """Return how many lines end before a place; places come in order."""
        self.lines += self.text.count("\n", self.counted, at)
        self.counted = at
        return self.lines

    def _strings(self, at: int) -> tuple[Any, int]:
        """Return a string. Long ones come in parts on lines of their own."""
        value, at = self._string(at)
        while True:
            after = self._skip(at)
            if self.text[after : after + 3] == "..." and self.language == NODE:
                return value, self._more(after)
            parted = "\n" in self.text[at:after] and self.language == PYTHON
            if self.text[after : after + 2] == "+\n":
                after, parted = self._skip(after + 1), True
            if not parted or self.text[after : after + 1] not in ("'", '"', "`"):
                return value, at
            more, at = self._string(after)
            value += more

    def _string(self, at: int) -> tuple[Any, int]:
        text = self.text
        prefix = ""
        while text[at : at + 1] and text[at] in "bru":
            prefix += text[at]
            at += 1
        quote = text[at : at + 1]
        if quote not in ("'", '"', "`"):
            raise NotRead
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
            code, at = self._escape(at)
            out += code
        if "b" in prefix:
            if any(code > 255 for code in out):
                raise NotRead
            return bytes(out), at + 1
        if any(not 0 <= code < 0x110000 for code in out):
            raise NotRead
        marked = [c if not 0xD800 <= c < 0xE000 else MARK + c - 0xD800 for c in out]
        return "".join([chr(c) for c in marked]), at + 1

    def _escape(self, at: int) -> tuple[list[int], int]:
        """Return the codes that the escape before a position's letter stands for."""
        text = self.text
        kind = text[at : at + 1]
        size = {"x": 2, "u": 4, "U": 8}.get(kind, 0)
        at += 1
        if size:
            begin = at
            if text[at : at + 1] == "{":
                begin, size = at + 1, text.find("}", at) - at - 1
                at += 2
            try:
                code = int(text[begin : begin + size], 16)
            except ValueError:
                raise NotRead from None
            # Ruby writes bytes so that are not UTF-8.
            lost = kind == "x" and code > 127 and self.language == RUBY
            return [0xFFFD if lost else code], at + size
        if kind in ESCAPES:
            return [ord(ESCAPES[kind])], at
        if kind == "#" and self.language == RUBY:
            return [ord(kind)], at
        return [92, ord(kind or " ")], at

    def _number(self, at: int) -> tuple[Any, int]:
        text, end = self.text, at
        while text[end : end + 1] and text[end] in "+-0123456789.eE_":
            end += 1
        word = text[at:end]
        try:
            number = float(word) if any(mark in word for mark in ".eE") else int(word)
            if self.language == PYTHON or text[end : end + 1] in ENDS_OF_VALUE:
                return number, end
        except ValueError:
            if self.language == PYTHON:
                raise NotRead from None
        while text[end : end + 1] not in ENDS_OF_VALUE or text[end : end + 1] == " ":  # a date
            end += 1
        return text[at:end], end

    def _skip(self, at: int) -> int:
        while self.text[at : at + 1] and self.text[at] in " \t\n":
            at += 1
        return at


def _in_snake_case(name: str) -> str:
    """Return the name of a variant as it is in JSON, as most crates of Rust write it.

    >>> _in_snake_case("ToolCalls"), _in_snake_case("stop")
    ('tool_calls', 'stop')
    """
    out = ""
    for letter in name:
        out += "_" + letter.lower() if "A" <= letter <= "Z" else letter
    return out.lstrip("_")
