"""Every exception that detok raises, one tree.

In: nothing. Out: classes. Whoever catches `DetokError` has caught everything that detok raises on purpose;
each class also derives from the built-in that a caller would already catch.
"""


class DetokError(Exception):
    """The root: something detok noticed and can say in one sentence."""


class VocabularyError(DetokError, ValueError):
    """An id that the vocabulary does not have, or a packed vocabulary that is damaged."""


class TokenizerFormatError(DetokError, ValueError):
    """A tokenizer file that is not what it should be: what it has, and what was expected."""


class StreamEndedError(DetokError, RuntimeError):
    """Something was fed to a stream after its `flush()`; `reset()` begins a new one."""


class ProtocolError(DetokError):
    """A breach of detok.v1. `code` is the WebSocket close code that says so (4400, 4406, …)."""

    def __init__(self, message: str, code: int = 4400) -> None:
        super().__init__(message)
        self.code = code


class LocalProtocolError(ProtocolError):
    """Our own side asked for something that detok.v1 does not allow now."""


class RemoteProtocolError(ProtocolError):
    """The other side sent something that detok.v1 does not allow."""
