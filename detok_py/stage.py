"""What a stage is, and how stages are put in a row.

In: chunks. Out: what has become certain. Held: whatever could still change, and nothing else.

A stage obeys four rules (DESIGN, "the law"): any chunking gives the same joined output; output is never
taken back; an empty input changes nothing; after `flush()` nothing is held.
"""

from typing import Any, Protocol


class Stage(Protocol):
    """Anything with `feed`, `flush`, `save` and `load`.

    `save()` returns the whole state as a tuple of plain values (int, str, None, bool, nested tuples), so that it pickles,
    goes through JSON (lists are accepted where tuples were) and can be given back to `load`.
    """

    def feed(self, chunk: Any) -> Any:
        """Take a chunk; return what it makes certain."""

    def flush(self) -> Any:
        """End the stream; return what was held."""

    def save(self) -> Any:
        """Return the state."""

    def load(self, state: Any) -> None:
        """Take a state that `save` returned."""


class Pipeline:
    """Text stages in a row; itself a text stage.

    Flushes like a pipe: what an earlier stage still held goes through the later ones before they flush.

    >>> from detok_py.segments import StopStrings
    >>> p = Pipeline(StopStrings(["END"]))
    >>> p.feed("thE"), p.feed("n E"), p.flush()
    ('th', 'En ', 'E')
    """

    def __init__(self, *stages: Stage) -> None:
        self.stages = stages

    def feed(self, chunk: Any) -> Any:
        for stage in self.stages:
            chunk = stage.feed(chunk)
        return chunk

    def flush(self) -> Any:
        out = ""
        for stage in self.stages:
            out = (stage.feed(out) if out else "") + stage.flush()
        return out

    def save(self) -> tuple[Any, ...]:
        return tuple([stage.save() for stage in self.stages])

    def load(self, state: Any) -> None:
        for stage, part in zip(self.stages, state):
            stage.load(part)
