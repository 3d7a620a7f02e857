"""Turn text that an engine has decoded back into bytes.

In: strings from JSON. Out: UTF-8. Held: at most one high surrogate, because some servers split a
surrogate pair between two events. A lone surrogate is not a character, so it becomes U+FFFD.
"""


class Surrogates:
    """Joins surrogate pairs that were split between two strings.

    >>> s = Surrogates()
    >>> s.feed("a\\ud83d"), s.feed("\\ude00b"), s.feed("\\udc00"), s.feed("\\ud83d"), s.flush()
    (b'a', b'\\xf0\\x9f\\x98\\x80b', b'\\xef\\xbf\\xbd', b'', b'\\xef\\xbf\\xbd')
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> bytes:
        """Return the bytes of all complete characters."""
        text = self._held + text
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return _encode(text)

    def flush(self) -> bytes:
        """Return U+FFFD if half of a pair was held."""
        held, self._held = self._held, ""
        return _encode(held)


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return (
            text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode("utf-8")
        )
