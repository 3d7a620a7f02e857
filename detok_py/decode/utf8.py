"""Bytes to text: UTF-8, exactly and as early as possible.

In: bytes, cut anywhere. Out: text. Held: at most 3 bytes, the beginning of one character that can
still be completed.

Invalid bytes become U+FFFD by maximal subparts (Unicode 3.9, table 3-8; WHATWG Encoding, "UTF-8
decoder"), at the byte where the error becomes certain. A U+FEFF is text, never stripped. Nothing
here looks for U+FFFD: a genuine EF BF BD is a character.

CPython's `codecs.utf_8_decode` does the work. It is late on exactly one form: `ED` followed by
A0..BF begins a surrogate, which no third byte can save, yet the codec waits for one. `decode_utf8`
doesn't.
"""

from codecs import utf_8_decode
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import StreamEndedError

if TYPE_CHECKING:
    from typing import Literal

    Data = bytes | bytearray | memoryview
    Errors = Literal["replace", "strict", "ignore", "backslashreplace"]

ERROR_POLICIES = ("replace", "strict", "ignore", "backslashreplace")


def check_errors(errors: Any) -> "Errors":
    """Return `errors` if it is one of the four policies, else raise ValueError."""
    if errors not in ERROR_POLICIES:
        raise ValueError(
            "errors must be one of " + ", ".join(ERROR_POLICIES) + ", not " + repr(errors)
        )
    known: Errors = errors
    return known


def utf8_expected_len(lead: int) -> int:
    """Return how many bytes the character that begins with byte `lead` has: 1 to 4, or 0 if no
    character begins with it.

    0 stands for 80..C1 and F5..FF (RFC 3629, section 4). An integer outside 0..255 raises
    ValueError.

    >>> [utf8_expected_len(b) for b in (0x41, 0xC3, 0xE4, 0xF0, 0x80, 0xC0, 0xF5)]
    [1, 2, 3, 4, 0, 0, 0]
    """
    if not 0 <= lead <= 255:
        raise ValueError("a byte is 0..255, not " + repr(lead))
    if lead < 0x80:
        return 1
    if lead < 0xC2 or lead > 0xF4:
        return 0
    return 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


def second_byte_range(lead: int) -> tuple[int, int]:
    """Return the lowest and highest second byte of a character of 2 to 4 bytes that begins with
    `lead` (Unicode 3.9, table 3-7).

    >>> [hex(b) for b in second_byte_range(0xED)]
    ['0x80', '0x9f']
    """
    return (
        0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80,
        0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF,
    )


def last_complete_utf8_end(data: bytes) -> int:
    """Return the length of the longest prefix of `data` that is safe to show: all but an unfinished
    character at the end.

    Bytes that can't become a character any more are safe: they are certain to be U+FFFD. 0 for
    `b""`.

    >>> (
    ...     last_complete_utf8_end("né".encode()),
    ...     last_complete_utf8_end("né".encode()[:-1]),
    ...     last_complete_utf8_end(b"a\\xff"),
    ... )
    (3, 1, 2)
    """
    if isinstance(data, str):
        raise TypeError("last_complete_utf8_end takes bytes, not str; encode the text first")
    # The last bytes decide: at most 3 of them wait.
    return len(data) - len(decode_utf8(data[-3:], "replace")[1])


def decode_utf8(data: "Data", errors: str) -> tuple[str, bytes]:
    """Return the text that `data` makes certain, and the bytes at its end (at most 3) that wait for
    more.

    >>> decode_utf8(b"caf\\xc3", "replace")
    ('caf', b'\\xc3')
    >>> decode_utf8(b"\\xed\\xa0", "replace")
    ('\\ufffd\\ufffd', b'')
    """
    text, used = utf_8_decode(data, errors, False)
    if used == len(data):
        return text, b""
    rest = bytes(data[used:])
    if len(rest) == 2 and rest[0] == 0xED and rest[1] > 0x9F:
        return text + utf_8_decode(rest, errors, True)[0], b""
    return text, rest


def texts_behind(held: bytes, errors: str, letters: str) -> list[str] | None:
    """Return the possible beginnings of the next text, after the unfinished character `held`; None
    if any is possible.

    The text begins with a character that `held` begins, or with the policy's text for `held`.
    `letters` are the characters that the caller treats specially. Two others stand for all others,
    because a single one would look certain.

    >>> texts_behind(b"\\xe4\\xb8", "strict", "a中")
    ['中', '一', '丁']
    >>> texts_behind(b"\\xe4\\xb8", "ignore", "") is None
    True
    """
    if not held or errors == "ignore":
        return None
    size = utf8_expected_len(held[0])
    low, high = second_byte_range(held[0]) if len(held) == 1 else (0x80, 0xBF)
    missing = size - len(held) - 1
    first = ord(decode_end(held + bytes([low]) + b"\x80" * missing, "strict"))
    last = ord(decode_end(held + bytes([high]) + b"\xbf" * missing, "strict"))
    texts = [] if errors == "strict" else [decode_end(held, errors)]
    texts += [letter for letter in letters if first <= ord(letter) <= last]
    others = 2
    for code in range(first, min(last, first + len(letters) + 1) + 1):
        if others and chr(code) not in letters:
            texts.append(chr(code))
            others -= 1
    return texts


def decode_end(data: bytes, errors: str) -> str:
    """Return the text of `data`, whose end is the end of the stream.

    (MicroPython's `bytes.decode` knows no policies.)
    """
    return utf_8_decode(data, errors, True)[0] if data else ""


def bad_byte(byte: int, errors: str) -> str:
    """Return what one invalid byte becomes under an error policy.

    >>> bad_byte(0xE4, "replace"), bad_byte(0xE4, "backslashreplace")
    ('\ufffd', '\\\\xe4')
    """
    if errors == "replace":
        return "\ufffd"
    if errors == "ignore":
        return ""
    if errors == "backslashreplace":
        return f"\\x{byte:02x}"
    return decode_end(bytes([byte]), errors)  # "strict" raises


def subparts(
    data: bytes, errors: str = "replace", *, single: bool = False
) -> list[tuple[int, str]]:
    """Return what each stretch of `data` becomes: (number of bytes, text), one pair a character or
    maximal subpart; with `single`, one pair a character or invalid byte.

    The end of `data` is the end of the stream. This is a slow form of `decode_utf8` that says which
    byte became which character.

    >>> subparts(b"a\\xe4\\xb8b\\xc3\\xa9")
    [(1, 'a'), (2, '\\ufffd'), (1, 'b'), (2, 'é')]
    """
    pairs = []
    at = 0
    while at < len(data):
        want = utf8_expected_len(data[at])
        size = 1
        while size < want and at + size < len(data):
            low, high = second_byte_range(data[at]) if size == 1 else (0x80, 0xBF)
            if not low <= data[at + size] <= high:
                break
            size += 1
        if single and size < want:
            size = 1
        pairs.append((size, decode_end(data[at : at + size], errors)))
        at += size
    return pairs


def ended(what: str) -> NoReturn:
    """Raise the error for something that came after the end of a stream."""
    raise StreamEndedError("this stream has been flushed; call reset() before " + what + " again")


class StreamingDetokenizer:
    """Bytes to text, a chunk at a time.

    Law: after every `feed` all that was returned, joined, is the longest common prefix of the final
    text over everything that could still come.

    `errors` is "replace" (U+FFFD by maximal subparts), "ignore", "backslashreplace", or "strict":
    UnicodeDecodeError as soon as an error is certain; the chunk is then refused whole and the state
    is as it was before it. `held` are the bytes that are not text yet; `held_text` is always empty.

    >>> s = StreamingDetokenizer()
    >>> s.feed(b"caf\\xc3"), s.held
    ('caf', b'\\xc3')
    >>> s.feed(b"\\xa9 \\xf0\\x9f"), s.flush()
    ('é ', '\\ufffd')
    """

    __slots__ = ("_ended", "_shown", "errors", "held")
    held_text = ""  # this stream holds bytes only

    def __init__(self, errors: "Errors" = "replace") -> None:
        self.errors: Errors = check_errors(errors)
        self.reset()

    def reset(self) -> None:
        """Forget everything and begin a new stream."""
        self.held: bytes = b""
        self._shown = 0
        self._ended = False

    @property
    def held_bytes(self) -> bytes:
        """The bytes that are not text yet, as `held`."""
        return self.held

    def __repr__(self) -> str:
        return f"<StreamingDetokenizer {self.errors}, held {self.held!r}>"

    def feed(self, data: "Data") -> str:
        """Take bytes (any buffer); return the text that they make certain."""
        if self._ended and len(data):
            ended("feeding it")
        if data.__class__ is not bytes:
            if isinstance(data, str):
                raise TypeError(
                    "This stream takes bytes, not " + repr(data)[:40] + ", which is text already."
                )
            data = bytes(memoryview(data))
        text, self.held = decode_utf8(self.held + data if self.held else data, self.errors)
        self._shown += len(text)
        return text

    def flush(self) -> str:
        """End the stream; return what the held bytes become: U+FFFD, or nothing."""
        text = decode_end(self.held, self.errors)
        self.held = b""
        self._shown += len(text)
        self._ended = True
        return text

    def save(self) -> tuple[str, int, bool]:
        """Return the state: held bytes in hex, characters shown, whether it has ended."""
        return self.held.hex() if self.held else "", self._shown, self._ended

    def load(self, state: tuple[str, int, bool]) -> None:
        """Take a state that `save` returned, or the list that JSON made of it."""
        self.held, self._shown, self._ended = bytes.fromhex(state[0]), state[1], state[2]

    def copy(self) -> "StreamingDetokenizer":
        """Return an independent stream in the same state."""
        other = StreamingDetokenizer(self.errors)
        other.load(self.save())
        return other

    def mark(self) -> tuple[str, int, bool]:
        """Return a mark of this moment, for `rollback`."""
        return self.save()

    def rollback(self, mark: tuple[str, int, bool]) -> int:
        """Go back to `mark`; return how many characters shown since then are to be taken back."""
        back = self._shown - mark[1]
        if back < 0:
            raise ValueError("This mark lies ahead of the stream.")
        self.load(mark)
        return back
