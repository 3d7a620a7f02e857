"""Load tokenizer files of every supported format.

Runs in: CPython, Pyodide.
Imports: errors, decode, formats, patterns.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from warnings import warn

from ..decode.rules import BYTES
from ..errors import TokenizerFormatError
from .strict_json import read_all
from .tiktoken import RankOptions, SpecialTokens
from .tiktoken import parse as parse_ranks
from .tokenizer import Tokenizer

__all__ = ["Tokenizer", "load_tokenizer"]

Content = bytes | bytearray | memoryview | BinaryIO
Source = str | PathLike[str] | Content | Mapping[str, Any]
SUPPORTED = (
    "tokenizer.json, vocab.json with merges.txt, vocab.txt, *.model of SentencePiece, *.gguf, *.tiktoken (with its name, "
    "encoding= or pattern=), tekken.json and RWKV's vocabulary"
)


class File(NamedTuple):
    """An open tokenizer file.

    `beside` returns what its folder has by a name, None if there is no such file. `whole` says that
    the folder was asked for, not the file.
    """

    opened: BinaryIO
    name: str
    beside: Callable[[str], Any]
    whole: bool

    def content(self, name: str) -> bytes | None:
        """Return the bytes of a file of its folder; its own are read where it has no folder."""
        found = self.beside(name)
        if found is None:
            return read_all(self.opened, name) if name == self.name else None
        return read_all(_opened(found), name)


def load_tokenizer(
    source: Source,
    encoding: str | None = None,
    *,
    pattern: str | None = None,
    special_tokens: SpecialTokens | None = None,
) -> Tokenizer:
    """Return the tokenizer of a file or folder; the format is detected from the content.

    `source` is a path, the bytes of a file, a binary file object, or a mapping: a folder's file
    names and their contents, or a tokenizer.json that is parsed already. A mapping is read as the
    folder would be.

    Reads tokenizer.json or its folder (Hugging Face), vocab.json with merges.txt, vocab.txt (BERT),
    *.model (SentencePiece), *.gguf (llama.cpp), *.tiktoken (OpenAI, Qwen, Whisper), tekken.json
    (Mistral) and RWKV's vocabulary. A tiktoken file contains neither its pattern nor its special
    tokens. They follow from the file name or from `encoding`: "cl100k_base", "o200k_base",
    "o200k_harmony", "p50k_base", "p50k_edit", "r50k_base", "gpt2", "qwen", "whisper",
    "whisper_v3"; or they are given: `pattern` is a regular expression, `special_tokens` maps names
    to ids, or lists names whose ids follow those of the file. Nothing is downloaded. Only the
    header of a GGUF file is read. If the tekken.json and the tokenizer.json of a folder decode
    differently, tekken.json is read, with a warning.

    Raises TokenizerFormatError if the file has another format or is damaged, OSError if it can't be
    read, ValueError if `encoding`, `pattern` or `special_tokens` is given for a file that has its
    own.

    >>> model = {"type": "WordLevel", "vocab": {"Hi": 0}, "unk_token": "Hi"}
    >>> (
    ...     load_tokenizer({"model": model}).decode([0, 0]),
    ...     load_tokenizer(b"SGk= 0", "gpt2").decode([0]),
    ... )
    ('Hi Hi', 'Hi')
    >>> load_tokenizer(b"SGk= 0", pattern=".", special_tokens=["<end>"]).decode(
    ...     [0, 1], skip_special_tokens=False
    ... )
    'Hi<end>'
    """
    ranks = RankOptions(encoding, pattern, special_tokens)
    if isinstance(source, Mapping):
        if "model" in source or "vocab" in source:
            import json

            source = {"tokenizer.json": json.dumps(source).encode()}
        name = _only_file(source, "the mapping")
        file = File(_opened(source[name]), name, source.get, True)
        return _of_folder(file, ranks)
    if isinstance(source, (str, PathLike)):
        path = Path(source)
        whole = path.is_dir()
        if whole:
            names = [one.name for one in path.iterdir() if one.is_file()]
            path /= _only_file(names, path.name or str(path))
        with path.open("rb") as opened:
            file = File(opened, path.name, lambda name: _beside(path, name), whole)
            return _of_folder(file, ranks) if whole else _read(file, ranks)
    label = getattr(source, "name", None)
    name = Path(label).name if isinstance(label, str) else "the file"
    return _read(File(_opened(source), name, lambda name: None, False), ranks)


def _opened(content: Any) -> BinaryIO:
    """Return a binary file object, at the first byte of the content."""
    if isinstance(content, (bytes, bytearray, memoryview)):
        return BytesIO(content)
    if not hasattr(content, "read"):
        raise TypeError(
            f"load_tokenizer takes a path, bytes, a binary file or a mapping, not {type(content).__name__}"
        )
    if isinstance(content.read(0), str):
        raise TypeError('load_tokenizer takes a file that was opened in binary mode ("rb")')
    # What can't be read twice is read once: its head decides the format.
    return content if content.seekable() and not content.tell() else BytesIO(content.read())


def _beside(file: Path, name: str) -> bytes | None:
    try:
        with (file.parent / name).open("rb") as opened:
            return read_all(opened, name)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _of_folder(file: File, ranks: RankOptions) -> Tokenizer:
    """Return the tokenizer of a folder whose tokenizer file is `file`."""
    tokenizer = _read(file, ranks)
    tekken = file.content("tekken.json") if file.name == "tokenizer.json" else None
    if tekken is None or tokenizer.vocabulary.rules == BYTES:
        return tokenizer
    warn(
        "the tokenizer.json of this folder decodes otherwise than its tekken.json, which is read "
        "in its place; pass the path of the tokenizer.json to read that one",
        stacklevel=3,
    )
    return _read(File(BytesIO(tekken), "tekken.json", file.beside, True), ranks)


def _read(file: File, ranks: RankOptions) -> Tokenizer:
    """Return the tokenizer of an open file, with the chat template of its folder."""
    head = file.opened.read(4096)
    size = file.opened.seek(0, 2)
    file.opened.seek(0)
    kind = _kind(head, file.name, ranks)
    if kind != "ranks" and ranks != RankOptions():
        raise ValueError(
            f"encoding=, pattern= and special_tokens= are for *.tiktoken files, not {file.name}"
        )
    tokenizer = _parsed(file, kind, size, ranks)
    # A GGUF file has its own, and a rank file may be of another model than the files beside it.
    if kind not in ("gguf", "ranks", "rwkv"):
        from . import chat_templates

        found = chat_templates.read(file.content)
        tokenizer.chat_template, tokenizer.response_template = found
    chat_format = tokenizer.chat_format
    if chat_format is not None:
        tokenizer.vocabulary.chat_format = chat_format.name
    return tokenizer


def _parsed(file: File, kind: str, size: int, ranks: RankOptions) -> Tokenizer:
    """Return the tokenizer of an open file of `size` bytes."""
    if kind == "gguf":
        from . import gguf

        return gguf.read(file.opened, size, file.name)
    if kind == "merges":
        from . import vocab_files

        return vocab_files.read_merges(file.name, file.content, file.whole)
    data = read_all(file.opened, file.name)
    if kind == "model":
        from . import spm

        return spm.read(data, file.name, file.content, file.whole)
    if kind == "words":
        from . import vocab_files

        return vocab_files.read_words(data, file.name, file.content, file.whole)
    if kind == "rwkv":
        from . import rwkv

        return rwkv.read(data, file.name)
    if kind == "ranks":
        return parse_ranks(data, file.name, ranks)
    if kind == "tekken":
        from . import tekken

        return tekken.parse(data, file.name)
    from . import hf_json

    return hf_json.read(data, file.name, file.content, file.whole)


# A vocab.json begins with a piece and its id, a tokenizer.json with its version.
_VOCAB_JSON = re.compile(rb'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\d+\s*[,}]')
_RWKV = re.compile(rb"""\d{1,7} b?['"]""")
_UNKNOWN_WORD = re.compile(rb"^\[UNK\]\r?$", re.MULTILINE)


def _kind(head: bytes, name: str, ranks: RankOptions) -> str:
    """Return which reader reads a file with this beginning and name."""
    if head[:4] == b"GGUF":
        return "gguf"
    if name in ("vocab.json", "merges.txt") or _VOCAB_JSON.match(head):
        return "merges"
    if head.lstrip(b" \t\r\n")[:1] == b"{":
        # Only tekken.json has these keys; only tokenizer.json has "added_tokens".
        if name == "tekken.json" or (
            (b'"token_bytes"' in head or b'"default_vocab_size"' in head)
            and b'"added_tokens"' not in head
        ):
            return "tekken"
        return "json"
    if _UNKNOWN_WORD.search(head):
        return "words"
    if _RWKV.match(head):
        return "rwkv"
    if _begins_with_piece(head):
        return "model"
    # A rank file may have any name: that of Llama 3 is tokenizer.model.
    if name.endswith(".tiktoken") or ranks != RankOptions():
        return "ranks"
    if name == "vocab.txt":
        return "words"
    if name.endswith(".model"):
        return "model"
    raise TokenizerFormatError(
        f"{name} begins with {head[:12]!r}, which is not a supported tokenizer file; supported: {SUPPORTED}"
    )


def _begins_with_piece(head: bytes) -> bool:
    """Return whether a file begins as a SentencePiece model does: a message in a message, each
    field 1.
    """
    return len(head) > 4 and head[0] == 10 == head[2] and head[3] + 2 <= head[1] < 128


def _only_file(names: Iterable[str], where: str) -> str:
    """Return tokenizer.json if a folder has it, otherwise its only other tokenizer file."""
    if "tokenizer.json" in names:
        return "tokenizer.json"
    found = [
        name
        for name in sorted(names)
        if name in ("tekken.json", "vocab.txt")
        or name.endswith((".gguf", ".tiktoken", ".model"))
        or (name == "vocab.json" and "merges.txt" in names)
        or (name.startswith("rwkv_vocab") and name.endswith(".txt"))
    ]
    if len(found) == 1:
        return found[0]
    raise TokenizerFormatError(
        f"{where} has no tokenizer.json and not exactly one of tekken.json, *.gguf, *.tiktoken, *.model, vocab.json with "
        f"merges.txt, vocab.txt and rwkv_vocab*.txt; found: {', '.join(found) or 'none'}; pass the path of the file itself"
    )
