"""Which program printed a value, and which lines of a file belong to it.

In: the lines of a file. Out: where a printed value begins, the name of its language, and lines
joined to values. reprs.py reads the values. Node prints `{ a: 'x' }`, Ruby `{"a" => "x"}` or
`{a: "x"}`, Rust `Name { a: Some("x") }`, Go `{A:x}`. Held: nothing.
"""

PYTHON, NODE, RUBY, RUST, GO = "Python", "Node", "Ruby", "Rust", "Go"
OPEN, CLOSE = "[({", "])}"
GOES_ON = (" ", "\t", "]", ")", "}")  # what lines of a value begin with
MOST_OF_KEY = 200
OF_GO = ("Content:", "Choices:", "Delta:", "Text:", "Response:", "Message:")
BY_GO = "a value that Go printed with %+v, without quotes: print it as JSON (json.Marshal)"
OF_EVENTS = ("data:", "event:")


def begin_of_value(text: str) -> tuple[int, str]:
    """Return where the first value in a text begins, and its language; (0, "") if it is JSON, or a
    dict of Python, or if there is none in the first line.

    >>> begin_of_value("chunk: { a: 'x' }"), begin_of_value('INFO Chunk { a: Some("x") }')
    ((7, 'Node'), (5, 'Rust'))
    >>> begin_of_value('{"a"=>"x"}'), begin_of_value("{a: nil}"), begin_of_value("{\\n  a: 'x'")
    ((0, 'Ruby'), (0, 'Ruby'), (0, 'Node'))
    >>> begin_of_value("{A:x B:}"), begin_of_value('{"a": 1}'), begin_of_value("{'a': 1}")
    ((0, 'Go'), (0, ''), (0, ''))
    """
    at = text.find("{")
    first = text.find("\n")
    if at < 0 or text.startswith(OF_EVENTS) or _in_string(text[:at]):
        return 0, ""
    if 0 <= first < at and (text[:first].rstrip()[-1:] != "[" or text[first:at].strip()):
        return 0, ""  # of another line
    gap = text[at + 1 : at + 2] in (" ", "\n", "")
    key = text[at + 1 : at + MOST_OF_KEY].lstrip()
    end = name_end(key, 0)
    named = end > 0 and key[end : end + 1] == ":"
    if end == len(key) > 0 and text[at + 1 : at + 2] == "\n":
        return _begin(text, at), NODE  # it breaks off
    begin = _begin(text, at)
    if not gap and _is_of_ruby(key, end):
        return begin, RUBY
    after = key[end + 1 : end + 2] if named else ""
    if not gap and "A" <= key[:1] <= "Z" and after not in ("", " ", "\n"):
        return begin, GO
    quoted = key[:1] == "'" and key.find("':") > 0
    if not gap or not (quoted or after in (" ", "\n")):
        return 0, ""
    quotes = [text.find(mark, at) for mark in ("'", '"', "`")]
    quotes = [one for one in quotes if one >= 0]
    # Node chooses quotes that the text has not, and takes ' first.
    double = not quotes or text[min(quotes)] == '"'
    return begin, RUST if double and name_end(text, begin) > begin else NODE


def _in_string(head: str) -> bool:
    """Return whether a text ends inside a string of an object that Python printed."""
    ends = [head.rfind(mark) for mark in ("='", '="')]
    at = max(ends)
    if at < 0 or "(" not in head[:at]:
        return False
    quote, rest = head[at + 1], head[at + 2 :].replace("\\\\", "")
    return quote not in rest.replace("\\" + quote, "")


def _is_of_ruby(key: str, end: int) -> bool:
    """Return whether the text behind a brace is a key of Ruby, whose name ends at `end`."""
    if key[:1] == '"':
        rest = key[key.find('"', 1) + 1 :].lstrip()
        return rest[:2] == "=>"
    if key[:1] == ":":
        return key[name_end(key, 1) :].lstrip()[:2] == "=>"
    return end > 0 and key[end : end + 2] == ": "


def _begin(text: str, at: int) -> int:
    """Return where a value with its first brace at `at` begins: at the names before that, at the
    list that it is in, or at Node's mark of what others refer to.
    """
    begin = at
    if text[at - 1 : at] == " ":
        name = _name_begin(text, at - 1)
        begin = name if name < at - 1 else at
    while text[begin - 1 : begin] == "(" and _name_begin(text, begin - 1) < begin - 1:
        begin = _name_begin(text, begin - 1)
    if text[at - 2 : at] == "> " and text.rfind("<ref *", 0, at) >= 0:
        begin = text.rfind("<ref *", 0, at)
    before = text[:begin].rstrip()
    return len(before) - 1 if before[-1:] == "[" else begin


def _name_begin(text: str, end: int) -> int:
    at = end
    while at and name_end(text[at - 1], 0):
        at -= 1
    return at


def joined_values(texts: list[str]) -> list[str]:
    """Return lines in which each value on several lines is on its first one, and "" on the others.
    A value goes on in lines that begin with a space or close a bracket.

    >>> joined_values(["{", "  a: 'x {'", "}", "{ a: 'y' }"])
    ["{\\n  a: 'x {'\\n}", '', '', "{ a: 'y' }"]
    """
    out = list(texts)
    n = 0
    while n < len(texts):
        begin, end = n, n + 1
        n = end
        if not any(mark in texts[begin] for mark in OPEN):
            continue
        value = "\n".join(texts[begin : begin + 3])
        at, language = begin_of_value(value)
        if language == GO:
            continue
        if not language:
            at = _begin_in_python(texts[begin])
        if at < 0:
            continue
        level = _level(texts[begin][at:])
        while level > 0 and end < len(texts) and texts[end][:1] in GOES_ON:
            level += _level(texts[end])
            end += 1
        if level == 0 or (language and end > begin + 1):
            out[begin] = "\n".join(texts[begin:end])
            for rest in range(begin + 1, end):
                out[rest] = ""
            n = end
    return out


def _begin_in_python(line: str) -> int:
    """Return where a value of Python that may go on in the next line begins; -1 if none does."""
    if line[:2] in ("{'", "['", "[{"):
        return 0
    end = name_end(line, 0)
    if line[end : end + 1] == "=":  # a field of a model of pydantic
        end = name_end(line, end + 1)
    return 0 if end and line[end : end + 1] == "(" else -1


def _level(line: str) -> int:
    """Return how many more brackets a line opens than it closes, outside of strings."""
    level = 0
    quote = ""
    skip = False
    for letter in line:
        if skip:
            skip = False
        elif quote:
            skip = letter == "\\"
            quote = "" if letter == quote else quote
        elif letter in "'\"`":
            quote = letter
        elif letter in OPEN:
            level += 1
        elif letter in CLOSE:
            level -= 1
    return level


def by_go(text: str) -> str:
    """Return a sentence if a text is an event that Go printed; "" for others.

    >>> by_go('{ID:1 Delta:{Content:a b Role:}}')[:28], by_go('{"ID":1}')
    ('a value that Go printed with', '')
    """
    is_go = begin_of_value(text)[1] == GO and any(mark in text for mark in OF_GO)
    return BY_GO if is_go else ""


def begins_printed(text: str) -> bool:
    """Return whether a text with a bracket begins as a printed value does, and not as JSON.

    >>> begins_printed("{ a: 1 }"), begins_printed('{"a" => 1}'), begins_printed('{"a": 1')
    (True, True, False)
    """
    text = text.strip()
    return text[:2] in ("{'", "['") or begin_of_value(text)[1] != ""


def name_end(text: str, at: int) -> int:
    """Return where a name that begins at a position ends."""
    while text[at : at + 1].isalpha() or (text[at : at + 1] and text[at] in "_.0123456789$"):
        at += 1
    return at
