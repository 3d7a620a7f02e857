"""Read server-sent events and lines of JSON from bytes that may be cut anywhere.

In: bytes. Out: events. Held: one unfinished line, and the data of one unfinished event.

This is the event stream of WHATWG HTML 9.2.6, with the additions that engines need. An event
without data is left out, and so is `[DONE]`, which ends OpenAI's streams. llama-server's `error:`
field counts as data. A line that begins with "{" is an event: Ollama sends JSON without field
names. So is a line of AI SDK 4's data stream, `0:"text"`. At the end of the stream `flush` returns
an event even if no empty line follows it.

>>> reader = EventReader()
>>> (
...     reader.feed(b'data: {"a":\\r\\ndata: 1}\\r'),
...     reader.feed(b'\\n\\r\\ndata: [DONE]\\n\\n{"b":2}\\n'),
... )
([], [Event(data='{"a":\\n1}', line=1), Event(data='{"b":2}', line=6)])
"""

from codecs import utf_8_decode
from typing import NamedTuple

# An event's text, and the number of its first line.
Event = NamedTuple("Event", [("data", str), ("line", int)])


class LineReader:
    """Splits bytes into lines. LF, CRLF and CR end a line.

    >>> lines = LineReader()
    >>> lines.feed(b"a\\r"), lines.feed(b"\\n\\xc3"), lines.feed(b"\\xa9\\nb"), lines.flush()
    ([b'a'], [], [b'\\xc3\\xa9'], [b'b'])
    """

    def __init__(self) -> None:
        self.held: bytearray = bytearray()
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are complete, without their ends."""
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[0] == 10:
                chunk = chunk[1:]
        if chunk.endswith(b"\r"):
            self._after_cr = True
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:
            self.held += chunk
            return []
        lines = chunk.split(b"\n")
        lines[0] = bytes(self.held) + lines[0]
        self.held = bytearray(lines.pop())
        return lines

    def flush(self) -> list[bytes]:
        """Return the unfinished line, if there is one."""
        held, self.held = bytes(self.held), bytearray()
        return [held] if held else []


def is_data_part(line: bytes) -> bool:
    """Return whether a line is one of AI SDK 4's data stream: a letter or digit, ":" and JSON."""
    return line[1:2] == b":" and line[:1] in b"0123456789abcdefghijk" and line[2:3] in b'"{['


class EventReader:
    """Reads events out of bytes."""

    def __init__(self) -> None:
        self._lines = LineReader()
        self._count = 0
        self._data: list[bytes] = []
        self._begin = 0
        self.done: bool = False  # whether [DONE] has come

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that are complete."""
        return self._read(self._lines.feed(chunk))

    def flush(self) -> list[Event]:
        """Return the unfinished event, if there is one."""
        return self._read(self._lines.flush() + [b""])

    def _read(self, lines: list[bytes]) -> list[Event]:
        events = []
        for line in lines:
            if not self._count and line[:3] == b"\xef\xbb\xbf":
                line = line[3:]
            self._count += 1
            name, _, value = line.partition(b":")
            if line[:1] == b"{":
                events.append(Event(utf_8_decode(line, "replace", True)[0], self._count))
            elif is_data_part(line):
                part = b'{"type":"' + line[:2] + b'","value":' + line[2:] + b"}"
                events.append(Event(utf_8_decode(part, "replace", True)[0], self._count))
            elif name in (b"data", b"error"):
                self._begin = self._begin or self._count
                self._data.append(value[1:] if value[:1] == b" " else value)
            elif not line and self._data:
                data = utf_8_decode(b"\n".join(self._data), "replace", True)[0]
                if data.strip() in ("[DONE]", '"[DONE]"'):  # Coze writes it as JSON
                    self.done = True
                elif data:
                    events.append(Event(data, self._begin))
                self._data = []
                self._begin = 0
        return events
