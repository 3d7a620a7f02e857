"""The exceptions that detok raises.

All derive from `DetokError`. Each also derives from the built-in exception that fits it, where
there is one.
"""


class DetokError(Exception):
    """The base class of all errors that detok raises on purpose."""


class VocabularyError(DetokError, ValueError):
    """An id is not in the vocabulary, or a packed vocabulary is damaged."""


class TokenizerFormatError(DetokError, ValueError):
    """A tokenizer file is damaged or not supported; the message says what was expected."""


class CaptureError(DetokError, ValueError):
    """A capture file is damaged; the message names the line and the fault."""


class StreamEndedError(DetokError, RuntimeError):
    """A stream was fed after its `flush()`; call `reset()` to start a new one."""


class ProtocolError(DetokError):
    """A violation of detok.v1; `code` is the WebSocket close code for it (4400, 4406, …)."""

    def __init__(self, message: str, code: int = 4400) -> None:
        super().__init__(message)
        self.code = code


class LocalProtocolError(ProtocolError):
    """The local side asked for something that detok.v1 does not allow in this state."""


class RemoteProtocolError(ProtocolError):
    """The remote side sent something that detok.v1 does not allow."""
