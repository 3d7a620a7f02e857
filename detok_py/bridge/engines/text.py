"""Text that an engine has decoded already, as the bytes that it would have been.

In: strings out of JSON. Out: UTF-8. Held: at most one high surrogate: JSON may carry half a pair, and some servers cut there; a lone
half is no character, so it becomes U+FFFD, as everywhere else.
"""


class Surrogates:
    """Joins surrogate pairs that were cut between two strings.

    >>> s = Surrogates()
    >>> s.feed("a\\ud83d"), s.feed("\\ude00b"), s.feed("\\udc00"), s.feed("\\ud83d"), s.flush()
    (b'a', b'\\xf0\\x9f\\x98\\x80b', b'\\xef\\xbf\\xbd', b'', b'\\xef\\xbf\\xbd')
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> bytes:
        """Return the bytes of what is whole."""
        text = self._held + text
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return _whole(text)

    def flush(self) -> bytes:
        """Return what was held: half a pair is U+FFFD."""
        held, self._held = self._held, ""
        return _whole(held)


def _whole(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode("utf-8")
