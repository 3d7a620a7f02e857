"""The pieces of a log, packed: what was appended, by position.

In: pieces (op, count, payload). Out: frames from any position that is still kept. Held: the pieces
from `base` to `end`, small neighbours in one segment, because a segment for each token would take a
hundred times the memory of a token. Acknowledged pieces are read again only after a reload of the
page, so 64 such segments are compressed into a block, if there is a codec such as zlib.

>>> pieces = Segments()
>>> pieces.append(wire.IDS, 2, b"ab"); pieces.append(wire.IDS, 1, b"c")
>>> pieces.read(0, 9), pieces.read(1, 2)
((b'\\x01abc', 3), (b'\\x01b', 2))
"""

from typing import Any, Iterable, Iterator

from . import wire

MAX_FRAME_DATA = 16 << 10
SEGMENT_COST = 200  # bytes of bookkeeping per segment, as an estimate
_SEGMENT_ROOM = 31  # small pieces that are added to a segment, each of less than 256 bytes
_DROPPED = (0, 0, -1, b"", b"")
# A segment of this op is a block: its payload has segments, compressed.
_BLOCK = -2
_MOST_OF_BLOCK = 64  # segments
_MAX_BLOCK = 64 << 10  # bytes, unless one segment is longer


class Segments:
    """Pieces from `base` to `end`. `size` is how many bytes they take, with bookkeeping. `codec`
    has `compress` and `decompress`, or is None.
    """

    def __init__(self, codec: Any = None) -> None:
        self.codec = codec
        self.base: int = 0
        self.end: int = 0
        self.size: int = 0
        # A segment is (position, count, op, payload, sizes); those before `_first` have been
        # dropped, and those before `_packed` are blocks. `sizes` has the sizes of the pieces that
        # raw bytes came in, if they are small.
        self._segments: list[tuple[int, int, int, bytes, bytes]] = []
        self._first = 0
        self._packed = 0
        self._unpacked: list[tuple[int, int, int, bytes, bytes]] = []  # of the last block read
        self._open_op = -1  # of the last segment, if more can be added to it
        self._room = 0
        # The last piece, if it is small: its position, op and payload. Most are read at once.
        self._last: tuple[int, int, bytes] = (-1, 0, b"")
        # Where a read has ended inside a segment: the position, and its offset in the segment.
        self._read_to = (-1, 0)

    def append(self, op: int, count: int, payload: bytes) -> None:
        """Add a piece of `count` positions."""
        size = len(payload)
        if op == self._open_op and count <= self._room and size < 256:
            start, n, _, data, sizes = self._segments[-1]
            if op == wire.BYTES:
                sizes += bytes((size,))
                self._room -= 1
            else:
                self._room -= count
            self._segments[-1] = (start, n + count, op, data + payload, sizes)
            self.size += size
        else:
            small = size < 256 and op != wire.GAP
            sizes = bytes((size,)) if small and op == wire.BYTES else b""
            self._segments.append((self.end, count, op, payload, sizes))
            self.size += size + SEGMENT_COST
            self._open_op = op if small else -1
            self._room = _SEGMENT_ROOM
        self._last = (self.end, op, payload) if self._open_op >= 0 else (-1, 0, b"")
        self.end += count

    def read(self, position: int, limit: int) -> tuple[bytes, int] | None:
        """Return the next frame after `position` and the position after that frame, or None at the
        end of the log or at `limit`.

        Neighbouring segments of tokens are joined into one frame, up to 16 KiB. Raw bytes are sent
        as the engine cut them: that shows where its tokens ended.
        """
        if position >= self.end:
            return None
        if position == self._last[0] and limit >= self.end:
            return wire.data_frame(self._last[1], self._last[2]), self.end
        if position >= self._segments[-1][0]:
            segments: Iterable[tuple[int, int, int, bytes, bytes]] = self._segments[-1:]
            self._unpacked = []  # all blocks have been read
        else:
            segments = self._from(position)
        out: list[bytes] = []
        size = 0
        op = -1
        for start, count, kind, payload, sizes in segments:
            if op >= 0 and (kind != op or kind in (wire.GAP, wire.BYTES) or size >= MAX_FRAME_DATA):
                break
            if kind == wire.GAP:
                # A gap is not split: it is sent if its last token is within the limit, or if it is
                # the first thing within the limit.
                if start + count > limit and start >= limit:
                    break
                return wire.data_frame(kind, payload), start + count
            skip = position - start
            take = min(start + count, limit) - position
            if kind == wire.BYTES:
                take = min(take, MAX_FRAME_DATA, _left_of_piece(sizes, skip) or take)
            if take <= 0:
                break
            known, low = self._read_to
            if position != known:
                low = wire.split_at(kind, payload, skip)
            high = len(payload)
            if skip + take < count:
                high = wire.split_at(kind, payload, take, low)
                self._read_to = (position + take, high)
            op = kind
            out.append(payload[low:high])
            size += high - low
            position += take
            if position < start + count:
                break
        return (wire.data_frame(op, b"".join(out)), position) if out else None

    def inside_gap(self, position: int) -> bool:
        """Return whether a position is inside a gap, where no frame can begin."""
        for start, _, op, _, _ in self._from(position):
            return op == wire.GAP and start < position
        return False

    def _from(self, position: int) -> Iterator[tuple[int, int, int, bytes, bytes]]:
        """Yield the segments from the one with `position` on, also those in blocks."""
        for at in range(self._find(position), len(self._segments)):
            segment = self._segments[at]
            if segment[2] != _BLOCK:
                yield segment
                continue
            if not self._unpacked or self._unpacked[0][0] != segment[0]:
                self._unpacked = list(_unpack(segment[0], self.codec.decompress(segment[3])))
            for inner in self._unpacked:
                if inner[0] + inner[1] > position:
                    yield inner

    def pack(self, before: int) -> None:
        """Compress the segments before a position, as far as they fill blocks."""
        if self.codec is None:
            return
        begin = end = max(self._packed, self._first)
        size = 0
        while end < len(self._segments) - 1:
            start, count, _, payload, _ = self._segments[end]
            if end - begin >= _MOST_OF_BLOCK or (size and size + len(payload) > _MAX_BLOCK):
                block = self._segments[begin:end]
                packed = self.codec.compress(b"".join([_pack(one) for one in block]), 1)
                first, last = block[0], block[-1]
                whole = (first[0], last[0] + last[1] - first[0], _BLOCK, packed, b"")
                self._segments[begin:end] = [whole]
                self.size += len(packed) + SEGMENT_COST * (1 - len(block)) - size
                self._packed = begin = begin + 1
                end, size = begin, 0
            elif start + count > before:
                break
            else:
                size += len(payload)
                end += 1

    def drop_first(self, before: int) -> bool:
        """Drop the oldest segment if all of it is before a position. Return whether it did."""
        if self._first == len(self._segments):
            return False
        start, count, _, payload, _ = self._segments[self._first]
        if start + count > before:
            return False
        self._segments[self._first] = _DROPPED
        self._first += 1
        self.size -= len(payload) + SEGMENT_COST
        self.base = start + count
        if self._first == len(self._segments):
            self._open_op = -1
        if self._first > 1024:
            del self._segments[: self._first]
            self._packed = max(0, self._packed - self._first)
            self._first = 0
        return True

    def _find(self, position: int) -> int:
        """Return the index of the segment that has `position` (MicroPython has no bisect)."""
        low, high = self._first, len(self._segments)
        if position >= self.end:
            return high
        while low < high:
            middle = (low + high) // 2
            if self._segments[middle][0] + self._segments[middle][1] <= position:
                low = middle + 1
            else:
                high = middle
        return low


def _pack(segment: tuple[int, int, int, bytes, bytes]) -> bytes:
    _, count, op, payload, sizes = segment
    numbers = [wire.pack_number(n) for n in (count, len(payload), len(sizes))]
    return bytes((op,)) + b"".join(numbers) + payload + sizes


def _unpack(start: int, data: bytes) -> Iterator[tuple[int, int, int, bytes, bytes]]:
    """Yield the segments of a block."""
    at = 0
    while at < len(data):
        op = data[at]
        count, at = wire.unpack_number(data, at + 1)
        size, at = wire.unpack_number(data, at)
        more, at = wire.unpack_number(data, at)
        yield start, count, op, data[at : at + size], data[at + size : at + size + more]
        start, at = start + count, at + size + more


def _left_of_piece(sizes: bytes, skip: int) -> int:
    """Return how many bytes of a piece are left at offset `skip` of a segment; 0 if the segment is
    one piece.

    >>> _left_of_piece(bytes([3, 4]), 2), _left_of_piece(bytes([3, 4]), 3), _left_of_piece(b"", 3)
    (1, 4, 0)
    """
    end = 0
    for size in sizes:
        end += size
        if end > skip:
            return end - skip
    return 0
