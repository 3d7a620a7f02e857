"""detok: decode a stream of token ids or bytes to text, exactly and as early as possible.

This module holds the public names. `load_tokenizer`, `Tokenizer`, `IncrementalDetokenizer`,
`ChatFormat`, `open`, and `TokenList` and `widget` for notebooks are imported on first use, so that
`import detok_py` stays small in a browser. `open` is left out of `__all__`, so that `from detok_py
import *` does not hide Python's own; so are `TokenList` and `widget`, which a page does not have.

>>> import detok_py as d
>>> s = d.StreamingDetokenizer()
>>> s.feed(b"\\xf0\\x9f"), s.feed(b"\\x98\\x80")
('', '😀')
"""

try:
    from . import interrupt  # noqa: F401  first, because of Ctrl-C during the other imports
except ImportError:
    pass  # a browser has no command line

from typing import TYPE_CHECKING, Any

from .decode.chat import ChatStream
from .decode.detokenizer import Detokenizer
from .decode.rules import use_regex_compiler
from .decode.stage import Delta
from .decode.stop_strings import StopStrings
from .decode.thinking import strip_thinking
from .decode.utf8 import StreamingDetokenizer, last_complete_utf8_end, utf8_expected_len
from .decode.vocabulary import ByteVocabulary, Vocabulary
from .errors import (
    DetokError,
    ProtocolError,
    StreamEndedError,
    TokenizerFormatError,
    VocabularyError,
)
from .formats.tool_call import ToolCall

if TYPE_CHECKING:
    from .formats.chat_format import ChatFormat
    from .integrations.codec import open as open
    from .notebook.player import widget as widget
    from .notebook.tokens import TokenList as TokenList
    from .tokenizers import Tokenizer, load_tokenizer
    from .tokenizers.window import IncrementalDetokenizer

__version__ = "0.1.0"

__all__ = [
    "ByteVocabulary",
    "ChatFormat",
    "ChatStream",
    "Delta",
    "DetokError",
    "Detokenizer",
    "IncrementalDetokenizer",
    "ProtocolError",
    "StopStrings",
    "StreamEndedError",
    "StreamingDetokenizer",
    "Tokenizer",
    "TokenizerFormatError",
    "ToolCall",
    "Vocabulary",
    "VocabularyError",
    "last_complete_utf8_end",
    "load_tokenizer",
    "strip_thinking",
    "utf8_expected_len",
]


def _compile_regex(pattern: str) -> Any:
    """Return the function that finds the matches of a regular expression in decoder rules.

    decode/ does not import patterns/, which MicroPython does not have, so it gets this function.
    """
    try:
        from .patterns.compiler import compile_pattern
    except ImportError:
        raise TokenizerFormatError(
            "decoder Replace: a regular expression needs Pyodide, and this is MicroPython"
        ) from None
    return compile_pattern(pattern).spans


use_regex_compiler(_compile_regex)


def _html_of(thing: Any) -> "str | None":
    """Return what a notebook shows of an object; None where there are no notebooks."""
    try:
        from .notebook.html import shown
    except ImportError:
        return None
    return shown(thing)


for _class in (ChatStream, Detokenizer, StopStrings, StreamingDetokenizer, Vocabulary):
    setattr(_class, "_repr_html_", _html_of)  # noqa: B010


def __getattr__(name: str) -> Any:
    if name in ("Tokenizer", "load_tokenizer"):
        from . import tokenizers as module
    elif name == "ChatFormat":
        from .formats import chat_format as module  # type: ignore[no-redef]
    elif name == "TokenList":
        from .notebook import tokens as module  # type: ignore[no-redef]
    elif name == "widget":
        from .notebook import player as module  # type: ignore[no-redef]
    elif name == "IncrementalDetokenizer":
        from .tokenizers import window as module  # type: ignore[no-redef]
    elif name == "open":
        try:
            from .integrations import codec as module  # type: ignore[no-redef]
        except ImportError:
            raise AttributeError("detok_py.open is not in the wheel for browsers") from None
    else:
        raise AttributeError("module 'detok_py' has no attribute " + repr(name))
    found = getattr(module, name)
    for each in ("Tokenizer", "IncrementalDetokenizer"):
        if hasattr(module, each):
            getattr(module, each)._repr_html_ = _html_of
    return found


def __dir__() -> list[str]:
    return sorted(
        set(list(globals()) + __all__ + ["TokenList", "open", "widget"])
    )  # MicroPython has no [*a, *b]
