"""Which cuts of a stream its page saw.

In: where the proxy cut, and where the chunks ended that the page got (reads.js). Out: where to cut
a chunk again, and how many cuts the page did not see. Held: those places, as numbers of bytes from
the beginning of the stream.

What waits for a page is joined by the system and by the browser: a page that reads late gets
several pieces as one chunk, and the cuts between them test nothing.
"""

from collections.abc import Iterable


class Reads:
    """The cuts of one stream at which a careless reader can break, and what its page got.

    Only a page that reads chunk by chunk in its main thread tells what it got.

    >>> reads = Reads()
    >>> for matters in (False, True, False):
    ...     reads.sent(1, matters)
    >>> reads.cuts_within(0, 3)
    [2]
    >>> reads.got([3])
    >>> reads.joined
    1
    """

    def __init__(self) -> None:
        self.cuts: list[int] = []
        self._ends: set[int] = set()
        self._sent = 0

    def sent(self, size: int, matters: bool) -> None:
        """Note a piece. `matters` says whether a careless reader can break where it ends."""
        self._sent += size
        if matters:
            self.cuts.append(self._sent)

    def cuts_within(self, begin: int, end: int) -> list[int]:
        """Return the cuts inside a chunk that the page has read."""
        return [cut for cut in self.cuts if begin < cut < end]

    def got(self, ends: Iterable[int]) -> None:
        """Note where chunks ended that the page got."""
        self._ends.update(ends)

    @property
    def joined(self) -> int:
        """How many cuts the page did not see, as far as it has read."""
        read = max(self._ends, default=0)
        return sum(1 for cut in self.cuts if cut < read and cut not in self._ends)
