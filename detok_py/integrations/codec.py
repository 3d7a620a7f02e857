"""The codec "detok", which decodes bytes as `StreamingDetokenizer` does; and text files with it.

In: bytes, cut anywhere. Out: text. Importing this module registers the codec, so that
`codecs.getincrementaldecoder("detok")`, `io.TextIOWrapper(…, encoding="detok")` and
`open(path, encoding="detok")` know it. It encodes as UTF-8.

It differs from "utf-8" in one place: `ED A0` is certainly an error, and is reported at once. Like
`StreamingDetokenizer`, it knows the policies "strict", "replace", "ignore" and "backslashreplace".
"""

import codecs
import io
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from ..decode.utf8 import StreamingDetokenizer, check_errors, decode_end, decode_utf8

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from ..decode.utf8 import Errors

NAME = "detok"
"""The name of the codec."""


class IncrementalDecoder(codecs.IncrementalDecoder):
    """`codecs.IncrementalDecoder` over a StreamingDetokenizer.

    >>> decoder = codecs.getincrementaldecoder("detok")("replace")
    >>> decoder.decode(b"caf\\xc3"), decoder.getstate(), decoder.decode(b"\\xa9 \\xf0", final=True)
    ('caf', (b'\\xc3', 0), 'é \\ufffd')
    """

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._stream = StreamingDetokenizer(check_errors(errors))

    def decode(self, input: "ReadableBuffer", final: bool = False) -> str:
        """Take bytes; return the text that they make certain, with `final` all of it."""
        held = self._stream.held
        given: Any = input  # any buffer will do
        text = self._stream.feed(given)
        if final:
            try:
                text += self._stream.flush()
            except UnicodeError:
                self._stream.held = held  # nothing of a refused chunk is taken
                raise
            self._stream.reset()
        return text

    def reset(self) -> None:
        """Forget what is held."""
        self._stream.reset()

    def getstate(self) -> tuple[bytes, int]:
        """Return what is held, and 0."""
        return self._stream.held, 0

    def setstate(self, state: tuple[bytes, int]) -> None:
        """Take what `getstate` returned."""
        self._stream.reset()
        self._stream.held = bytes(state[0])


class StreamReader(codecs.StreamReader):
    """`codecs.StreamReader`, for `codecs.getreader`."""

    def decode(self, input: bytes, errors: str = "strict") -> tuple[str, int]:
        """Return the text that is certain, and how many bytes it took."""
        text, held = decode_utf8(bytes(input), check_errors(errors))
        return text, len(input) - len(held)


def decode(input: "ReadableBuffer", errors: str = "strict") -> tuple[str, int]:
    """Return the text of all of `input`, and its length in bytes."""
    data = bytes(input)
    return decode_end(data, check_errors(errors)), len(data)


def search(name: str) -> codecs.CodecInfo | None:
    """Return the codec of this module, None for other names."""
    if name != NAME:
        return None
    utf8 = codecs.lookup("utf-8")
    return codecs.CodecInfo(
        name=NAME,
        encode=utf8.encode,
        decode=decode,
        incrementalencoder=utf8.incrementalencoder,
        incrementaldecoder=IncrementalDecoder,
        streamreader=StreamReader,
        streamwriter=utf8.streamwriter,
    )


codecs.register(search)


def open(binary: BinaryIO, errors: "Errors" = "replace", newline: str | None = "") -> TextIO:
    """Return a text file over a binary one: a pipe, a socket's file, a response.

    It closes `binary` when it is closed. Line ends are left as they are; `newline` is that of
    `io.TextIOWrapper`. `errors` is a policy of `StreamingDetokenizer`.

    >>> file = open(io.BytesIO(b"caf\\xc3\\xa9\\n\\xf0\\x9f"))
    >>> file.readline(), file.read()
    ('café\\n', '\\ufffd')
    """
    if isinstance(binary.read(0), str):
        raise TypeError("open takes a binary file, and this one gives text already")
    return io.TextIOWrapper(binary, encoding=NAME, errors=check_errors(errors), newline=newline)
