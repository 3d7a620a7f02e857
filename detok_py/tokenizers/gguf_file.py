"""The key-values of a GGUF file, the model format of llama.cpp.

In: a file. Out: a dict of the keys that describe a tokenizer. Format: `docs/gguf.md` of ggml.

A GGUF file is a header (counts), key-values, tensor infos and tensors. Numbers are little-endian,
or big-endian if the version number reads as byte-swapped. The reader goes through the key-values
once. It reads the file in steps, so a 20 GB model costs no more than its vocabulary. Each count is
checked against the bytes that remain in the file before memory of that size is allocated.
"""

import struct
from array import array
from sys import byteorder
from typing import Any, BinaryIO, Optional

from ..errors import TokenizerFormatError

MAX_KEYS = 4096
MAX_KEY = 1 << 16
MAX_STRING = 1 << 20
MAX_MERGES = 1 << 22
MAX_HEADER = 1 << 28
WINDOW = 1 << 18

UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64 = (
    range(13)
)
# The type code of `struct` and `array` for each type.
_LETTER = {
    UINT8: "B",
    INT8: "b",
    UINT16: "H",
    INT16: "h",
    UINT32: "I",
    INT32: "i",
    FLOAT32: "f",
    BOOL: "B",
    UINT64: "Q",
    INT64: "q",
    FLOAT64: "d",
}
_SIZE = {kind: struct.calcsize("<" + letter) for kind, letter in _LETTER.items()}

# A file that has several templates has their names behind this key.
CHAT_TEMPLATE = "tokenizer.chat_template"

# Token types, `llama_token_type` in llama.h.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


class Strings:
    """An array of strings as it is stored in the file, where eight bytes of length precede each
    string.

    String `i` is `blob[starts[i] : starts[i + 1] - 8]`.
    """

    __slots__ = ("blob", "starts")

    def __init__(self, blob: bytes, starts: "array[int]") -> None:
        self.blob: bytes = blob
        self.starts: array[int] = starts

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, i: int) -> bytes:
        return self.blob[self.starts[i] : self.starts[i + 1] - 8]


def read_metadata(file: BinaryIO, size: int, what: str = "the file") -> dict[str, Any]:
    """Return the keys of a GGUF file that begin with "tokenizer.ggml.", its chat templates,
    "general.architecture" and "general.name". All other keys are skipped.

    A value is a number, a bool, a str, an `array` of numbers or a `Strings`. `size` is the file's
    size in bytes. `what` names the file in error messages. Raises TokenizerFormatError.

    >>> import io
    >>> data = (
    ...     b"GGUF"
    ...     + struct.pack("<IQQ", 3, 0, 1)
    ...     + struct.pack("<Q", 12)
    ...     + b"general.name"
    ...     + struct.pack("<IQ", STRING, 4)
    ...     + b"tiny"
    ... )
    >>> read_metadata(io.BytesIO(data), len(data))
    {'general.name': 'tiny'}
    """
    return _Reader(file, size, what).read()


class _Reader:
    """A position in the file, and the bytes that have been read so far."""

    __slots__ = ("at", "data", "file", "order", "size", "what")

    def __init__(self, file: BinaryIO, size: int, what: str) -> None:
        self.file, self.size, self.what = file, size, what
        self.data = bytearray()
        self.at = 0
        self.order = "<"

    def read(self) -> dict[str, Any]:
        if self.take(4) != b"GGUF":
            raise TokenizerFormatError(
                f"{self.what} begins with {bytes(self.data[:4])!r}; a GGUF file begins with b'GGUF'"
            )
        version = self.number(UINT32)
        if version and version & 0xFFFF == 0:
            self.order = ">"
            version >>= 24
        if version not in (2, 3):
            raise TokenizerFormatError(
                f"{self.what} is GGUF version {version}; versions 2 and 3 are read: convert the model again"
            )
        self.number(UINT64)  # the number of tensors
        keys = self.number(UINT64)
        if keys > MAX_KEYS:
            raise TokenizerFormatError(
                f"{self.what} says that it has {keys} keys; at most {MAX_KEYS} are read"
            )
        out: dict[str, Any] = {}
        seen = set()
        for _ in range(keys):
            key = self.string(MAX_KEY, "a key")
            if key in seen:
                raise TokenizerFormatError(f"{self.what} has the key {key[:80]!r} twice")
            seen.add(key)
            wanted = key.startswith(("tokenizer.ggml.", CHAT_TEMPLATE + ".")) or key in (
                CHAT_TEMPLATE,
                "general.architecture",
                "general.name",
            )
            value = self.value(key[:80], self.number(UINT32), wanted)
            if wanted:
                out[key] = value
        return out

    def need(self, count: int) -> None:
        """Read the next `count` bytes into `data`. Raises TokenizerFormatError if the file is too
        short.
        """
        end = self.at + count
        if end > self.size:
            raise TokenizerFormatError(
                f"{self.what} has {self.size} bytes, but at byte {self.at} it says that {count} more follow: is it complete?"
            )
        if end > MAX_HEADER:
            raise TokenizerFormatError(
                f"{self.what} has more than {MAX_HEADER} bytes of key-values, which is more than is read"
            )
        if end > len(self.data):
            self.data += self.file.read(
                max(end - len(self.data), min(WINDOW, self.size - len(self.data)))
            )
            if end > len(self.data):
                raise TokenizerFormatError(f"{self.what} became shorter while it was being read")

    def take(self, count: int) -> bytes:
        self.need(count)
        self.at += count
        return self.since(self.at - count)

    def since(self, begin: int) -> bytes:
        """Return a copy of the bytes from `begin` to the current position."""
        with memoryview(self.data) as view, view[begin : self.at] as part:
            return bytes(part)

    def skip(self, count: int) -> None:
        self.need(count)
        self.at += count

    def number(self, kind: int) -> Any:
        return struct.unpack(self.order + _LETTER[kind], self.take(_SIZE[kind]))[0]

    def string(self, most: int, what: str) -> str:
        length = self.number(UINT64)
        if length > most:
            raise TokenizerFormatError(
                f"{self.what}: {what} has {length} bytes; at most {most} are read"
            )
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise TokenizerFormatError(
                f"{self.what}: {what} is not UTF-8: {error.reason}, at byte {error.start} of it"
            ) from None

    def value(self, key: str, kind: int, wanted: bool) -> Any:
        if kind == STRING:
            if wanted:
                return self.string(MAX_STRING, f"the value of {key!r}")
            return self.skip(self.number(UINT64))
        if kind == ARRAY:
            return self.array(key, wanted)
        if kind not in _LETTER:
            raise TokenizerFormatError(
                f"{self.what}: the value of {key!r} is of type {kind}; GGUF has the types 0 to 12"
            )
        number = self.number(kind)
        return bool(number) if kind == BOOL else number

    def array(self, key: str, wanted: bool) -> Any:
        kind, count = self.number(UINT32), self.number(UINT64)
        if kind == STRING:
            return self.strings(key, count, wanted)
        if kind not in _LETTER:
            raise TokenizerFormatError(
                f"{self.what}: {key!r} is an array of type {kind}; arrays of numbers and of strings are read, nested arrays are not"
            )
        if not wanted:
            return self.skip(count * _SIZE[kind])
        out = array(_LETTER[kind], self.take(count * _SIZE[kind]))
        if (self.order == ">") != (byteorder == "big"):
            out.byteswap()
        return out

    def strings(self, key: str, count: int, wanted: bool) -> Any:
        if count > MAX_MERGES:
            raise TokenizerFormatError(
                f"{self.what}: {key!r} says that it has {count} strings; at most {MAX_MERGES} are read"
            )
        if self.at + 8 * count > self.size:
            raise TokenizerFormatError(
                f"{self.what}: {key!r} says that it has {count} strings, but only {self.size - self.at} bytes remain: is it complete?"
            )
        begin = self.at
        starts = array("I")
        length_at = struct.Struct(self.order + "Q").unpack_from
        at, have, data = begin, len(self.data), self.data
        for _ in range(count):
            if at + 8 > have:
                self.at = at
                self.need(8)
                have = len(data)
            at += 8
            starts.append(at - begin)
            length = length_at(data, at - 8)[0]
            at += length
            if at > have:
                self.at = at - length
                self.need(length)
                have = len(data)
        starts.append(at - begin + 8)
        self.at = at
        return Strings(self.since(begin), starts) if wanted else None


def token_numbers(
    metadata: dict[str, Any], key: str, letters: str, count: int, what: str
) -> Optional["array[Any]"]:
    """Return the array that has a number for each token, or None if the file has no such array."""
    value = metadata.get("tokenizer.ggml." + key)
    if value is None:
        return None
    if not isinstance(value, array) or value.typecode not in letters or len(value) < count:
        found = (
            f"{len(value)} numbers of type {value.typecode!r}"
            if isinstance(value, array)
            else type(value).__name__
        )
        raise TokenizerFormatError(
            f'{what}: "tokenizer.ggml.{key}" is {found}; expected {count} of type {letters[0]!r}'
        )
    return value
