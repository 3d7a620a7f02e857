"""The log of a run: its data, and how it ended.

In: an engine's tokens or bytes, and its end. Out: frames from any position that is still kept.
Held: all pieces, or, beyond `max_size`, those that the reader has not acknowledged.

>>> log = Log()
>>> log.start("bytes"); log.add_bytes(b"caf\\xc3"); log.add_bytes(b"\\xa9"); log.finish("eos")
>>> log.read(0, 9), log.read(4, 9), log.read(5, 9)
((b'\\x00caf\\xc3', 4), (b'\\x00\\xa9', 5), None)
>>> log.position, log.end["reason"]
(5, 'eos')
"""

import hashlib
from typing import Any, Callable, Iterable

from ..errors import LocalProtocolError
from . import wire
from .events import WANTS
from .segments import Segments

MAX_LOG = 8 << 20


class Log:
    """The data of one run, append-only.

    `data` is what the log carries ("bytes", "ids", "both"; "" before `start`). `begins` is the
    section that the end of the prompt has opened: "content", "reasoning", "header", or "" if
    unknown. `position` is where the next piece goes, `end` the last message of the run, or None.
    A reader may read the data before `shown`, and the end if `ended` is true. By default, new data
    is shown at once. If `hold` is set, the log calls it instead, and the owner of `hold` calls
    `show` later. The reader sets `acked`: data before it may be dropped. The log calls `changed`
    when there is more to read.
    """

    def __init__(self, *, max_size: int = MAX_LOG, base: int = 0, codec: Any = None) -> None:
        self.data: str = ""
        self.begins: str = ""
        self.position: int = base
        self.shown: int = base
        self.acked: int = base
        self.end: dict[str, Any] | None = None
        self.ended: bool = False
        self.hold: Callable[[], None] | None = None
        self.changed: Callable[[], None] = do_nothing
        self.max_size = max_size
        self._pieces = Segments(codec)
        self._pieces.base = self._pieces.end = base
        self._hash = hashlib.sha256()
        self._sum: str | None = None  # the SHA-256, once the run has ended

    def start(self, data: str, begins: str = "") -> None:
        """Set `data` and `begins`; the client gets `started`."""
        if data not in WANTS:
            raise LocalProtocolError(f"A run carries 'bytes', 'ids' or 'both', not {data!r}.")
        self.data = data
        self.begins = begins
        self._show_new()

    def add_bytes(self, data: bytes) -> None:
        """Append raw bytes (a run of "bytes")."""
        if data:
            self.add(wire.BYTES, len(data), bytes(data))

    def add_ids(self, ids: Iterable[int]) -> None:
        """Append token ids (a run of "ids")."""
        ids = list(ids)
        if ids:
            self.add(wire.IDS, len(ids), wire.pack_ids(ids))

    def add_tokens(self, tokens: Iterable[tuple[int, bytes]]) -> None:
        """Append tokens with their bytes (a run of "both")."""
        tokens = list(tokens)
        if tokens:
            self.add(wire.TOKENS, len(tokens), wire.pack_tokens(tokens))

    def add_gap(self, count: int, data: bytes) -> None:
        """Append `count` tokens whose ids are not known, and their bytes (a run of "both")."""
        self.add(wire.GAP, count, wire.pack_gap(count, data))

    def add(self, op: int, count: int, payload: bytes) -> None:
        """Append `count` positions, packed as in a frame of `op`."""
        if self.end is not None:
            raise LocalProtocolError("A run that has ended takes no more data.")
        if op not in wire.OPS.get(self.data, ()):
            raise LocalProtocolError(f"A run of {self.data!r} does not carry op {op}.")
        self._hash.update(payload)
        self._pieces.append(op, count, payload)
        self.position += count
        if self._pieces.size > self.max_size:
            self._trim()
        self._show_new()

    def finish(
        self,
        reason: str,
        note: str | None = None,
        counts: "tuple[int | None, int | None]" = (None, None),
    ) -> None:
        """End the run: "eos", "stop", "length" or "cancelled". `note` is one sentence about what
        the engine lost, if anything. `counts` are the numbers of prompt tokens and generated
        tokens, as the engine says.
        """
        end: dict[str, Any] = {"type": "finished", "reason": reason, "note": note}
        usage = {"prompt_tokens": counts[0], "completion_tokens": counts[1]}
        if counts[0] is not None or counts[1] is not None:
            end["usage"] = {key: usage[key] for key in usage if usage[key] is not None}
        self.close(end)

    def fail(
        self,
        code: int,
        message: str,
        *,
        retry: bool = False,
        retry_after: int | None = None,
        vocabulary: dict[str, Any] | None = None,
    ) -> None:
        """End the run with an error, which comes after the data. `retry_after` is the number of
        seconds to wait, if the engine says one; `vocabulary` is the server's current one, if the
        client has another.
        """
        end: dict[str, Any] = {"type": "error", "code": code, "message": message, "retry": retry}
        end.update(retry_after=retry_after, vocabulary=vocabulary)
        self.close(end)

    def close(self, end: dict[str, Any]) -> None:
        """End the run with its last message; a run that has ended keeps its end."""
        if self.end is None:
            self.end = end
            self._show_new()

    def show(self, position: int, *, ended: bool) -> None:
        """Show readers the data before `position`, and the end if `ended`."""
        self.shown = position
        self.ended = ended
        self.changed()

    def _show_new(self) -> None:
        if self.hold is not None:
            self.hold()
            return
        self.shown = self.position
        self.ended = self.end is not None
        self.changed()

    @property
    def started(self) -> str:
        """The arguments of `start` as one string, for a store: "ids reasoning"; "" before."""
        return f"{self.data} {self.begins}" if self.data else ""

    @property
    def unit(self) -> str:
        """What a position counts: "bytes" or "tokens"."""
        return "bytes" if self.data == "bytes" else "tokens"

    @property
    def base(self) -> int:
        """The first position that the log still has."""
        return self._pieces.base

    @property
    def codec(self) -> Any:
        """The module that compresses acknowledged pieces, such as zlib, or None."""
        return self._pieces.codec

    @property
    def size(self) -> int:
        """The size of the log in bytes, with bookkeeping."""
        return self._pieces.size

    def read(self, position: int, limit: int) -> tuple[bytes, int] | None:
        """Return the next frame after `position` and the position after that frame, or None at the
        end of the log or at `limit`.
        """
        return self._pieces.read(position, limit)

    def inside_gap(self, position: int) -> bool:
        """Return whether a position is inside a gap, where no frame can begin."""
        return self._pieces.inside_gap(position)

    def sha256(self) -> str:
        """Return the SHA-256 of all payloads up to `position`. Not in MicroPython before the end:
        a hash there cannot be copied.
        """
        if self.end is None:
            return self._hash.copy().digest().hex()
        if self._sum is None:
            self._sum = self._hash.digest().hex()  # once: a hash of MicroPython ends with `digest`
        return self._sum

    def ending(self, run_id: str) -> str:
        """Return the last text frame of the run, with the count and the SHA-256 of all its data."""
        fields: dict[str, Any] = {"id": run_id, "sha256": self.sha256(), self.unit: self.position}
        fields.update(self.end or {})
        return wire.message(fields.pop("type"), **fields)

    def acknowledge(self, n: int) -> None:
        """Note that the reader has the data before `n`."""
        self.acked = n
        self._pieces.pack(n)
        if self._pieces.size > self.max_size:
            self._trim()

    def _trim(self) -> None:
        """Drop the oldest acknowledged pieces while the log exceeds `max_size`."""
        while self._pieces.size > self.max_size and self._pieces.drop_first(self.acked):
            pass


def do_nothing() -> None:
    """Do nothing: the default of callbacks such as `changed`."""
