"""detok: token bytes to text, exactly and as early as possible. The public names and nothing else.

What a browser needs comes with the import; `load_tokenizer` and `IncrementalDetokenizer` are imported when they are first asked for.

>>> import detok_py as d
>>> s = d.StreamingDetokenizer()
>>> s.feed(b"\\xf0\\x9f"), s.feed(b"\\x98\\x80")
('', '😀')
"""

from typing import Any

from .chat import ChatStream, strip_thinking
from .detokenizer import Detokenizer
from .errors import DetokError, ProtocolError, StreamEndedError, TokenizerFormatError, VocabularyError
from .segments import Delta, StopStrings
from .utf8 import StreamingDetokenizer, last_complete_utf8_end, utf8_expected_len
from .vocabulary import ByteVocabulary, Vocabulary

__version__ = "0.1.0"

__all__ = [
    "ByteVocabulary",
    "ChatStream",
    "Delta",
    "DetokError",
    "Detokenizer",
    "IncrementalDetokenizer",
    "ProtocolError",
    "StopStrings",
    "StreamEndedError",
    "StreamingDetokenizer",
    "TokenizerFormatError",
    "Vocabulary",
    "VocabularyError",
    "last_complete_utf8_end",
    "load_tokenizer",
    "strip_thinking",
    "utf8_expected_len",
]


def __getattr__(name: str) -> Any:
    if name == "load_tokenizer":
        from .tokenizers import load_tokenizer

        return load_tokenizer
    if name == "IncrementalDetokenizer":
        from .window import IncrementalDetokenizer

        return IncrementalDetokenizer
    raise AttributeError("module 'detok_py' has no attribute " + repr(name))
