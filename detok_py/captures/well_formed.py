"""Whether a text is JSON (RFC 8259), where the parser does not say: MicroPython's takes a missing
comma, a control character in a string, or an escape that is none.

In: a text. Out: whether it is JSON. Held: the forms that were checked, without their strings and
digits; the events of a stream share a few.
"""

VALUE, FIRST, KEY, FIRST_KEY, COLON, NEXT = range(6)
ESCAPES = '"\\/bfnrt'
ESCAPED = "\x7f"  # stands for an escaped backslash or quote; outside of strings it is no JSON
HEX = "0123456789abcdefABCDEF"
MOST_FORMS = 1000
_forms: dict[str, bool] = {}


def is_json(text: str) -> bool:
    r"""Return whether a text is JSON.

    >>> [is_json(text) for text in ('{"a": [1, -0.5e3, "\\n"]}', '{"a" 1}', '[1 2]', r'"\x"', "01")]
    [True, False, False, False, False]
    """
    parts = text.replace("\\\\", ESCAPED).replace('\\"', ESCAPED).split('"')
    strings = " ".join(parts[1::2])
    if len(parts) % 2 == 0 or (strings and min(strings) < " "):
        return False
    if "\\" in strings and not all(map(_is_escape, strings.split("\\")[1:])):
        return False
    form = '"'.join(parts[::2])  # each string is one quote
    for digit in "23456789":
        form = form.replace(digit, "1")
    for before, after in (("\t", " "), ("\r", " "), ("\n", " "), (".0", ".1"), ("E", "e")):
        form = form.replace(before, after)
    for exponent in ("e+1", "e-1", "e+0", "e-0", "e0"):
        form = form.replace(exponent, "e1")
    while "11" in form or "10" in form or "  " in form:
        form = form.replace("11", "1").replace("10", "1").replace("  ", " ")
    if form not in _forms:
        if len(_forms) >= MOST_FORMS:
            _forms.clear()
        _forms[form] = _is_form(form)
    return _forms[form]


def _is_escape(text: str) -> bool:
    """Return whether a text goes on as one does behind the backslash of an escape."""
    if text[:1] == "u":
        return len(text) > 4 and all(letter in HEX for letter in text[1:5])
    return text[:1] != "" and text[:1] in ESCAPES


def _is_form(form: str) -> bool:
    """Return whether a text is JSON in which a quote is a string, and a number one digit or two."""
    open_: list[str] = []
    expected = VALUE
    at = 0
    while at < len(form):
        letter, size = form[at], 1
        if letter == " ":
            at += 1
            continue
        if letter in "]}" and (expected in (FIRST, FIRST_KEY, NEXT)):
            if not open_ or open_.pop() != ("[" if letter == "]" else "{"):
                return False
            if expected == (FIRST_KEY if letter == "]" else FIRST):
                return False
            expected = NEXT
        elif expected in (VALUE, FIRST):
            size = _size_of_scalar(form, at)
            expected = NEXT
            if letter in "[{":
                open_.append(letter)
                size, expected = 1, FIRST if letter == "[" else FIRST_KEY
        elif expected in (KEY, FIRST_KEY):
            size, expected = int(letter == '"'), COLON
        elif expected == COLON:
            size, expected = int(letter == ":"), VALUE
        else:
            size = int(letter == "," and bool(open_))
            expected = KEY if open_[-1:] == ["{"] else VALUE
        if not size:
            return False
        at += size
    return expected == NEXT and not open_


def _size_of_scalar(form: str, at: int) -> int:
    """Return how long a string, a word or a number is that begins at a place; 0 if none does."""
    for word in ('"', "true", "false", "null"):
        if form.startswith(word, at):
            return len(word)
    end = at + form.startswith("-", at)
    if form[end : end + 1] not in ("0", "1"):
        return 0
    end += 1
    for mark in (".1", "e1"):
        end += len(mark) if form.startswith(mark, end) else 0
    return end - at
