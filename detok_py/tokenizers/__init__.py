"""Load tokenizer files of every supported format.

Runs in: CPython, Pyodide.
Imports: errors, decode, patterns.
"""

from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import TokenizerFormatError
from .strict_json import read_all
from .tokenizer import Tokenizer

__all__ = ["Tokenizer", "load_tokenizer"]

Content = bytes | bytearray | memoryview | BinaryIO
Source = str | PathLike[str] | Content | Mapping[str, Any]


def load_tokenizer(source: Source, encoding: str | None = None) -> Tokenizer:
    """Return the tokenizer of a file or folder; the format is detected from the content.

    `source` is a path, the bytes of a file, a binary file object, or a mapping: a folder's file
    names and their contents, or a tokenizer.json that is parsed already. Of a mapping's files those
    are read that would be read of a folder.

    Reads tokenizer.json or its folder (Hugging Face), *.gguf (llama.cpp), *.tiktoken (OpenAI, Qwen)
    and tekken.json (Mistral). A tiktoken file contains neither its pattern nor its special tokens;
    they follow from the file name or from `encoding`: "cl100k_base", "o200k_base", "o200k_harmony",
    "p50k_base", "p50k_edit", "r50k_base", "gpt2", "qwen". Nothing is downloaded. Of a GGUF file
    only the header is read. Raises TokenizerFormatError if the file has another format or is
    damaged, OSError if it can't be read.

    >>> model = {"type": "WordLevel", "vocab": {"Hi": 0}, "unk_token": "Hi"}
    >>> load_tokenizer({"model": model}).decode([0, 0]), load_tokenizer(b"SGk= 0", "gpt2").decode([0])
    ('Hi Hi', 'Hi')
    """
    if isinstance(source, Mapping):
        if "model" in source or "vocab" in source:
            import json

            source = {"tokenizer.json": json.dumps(source).encode()}
        name = _only_file(source, "the mapping")
        return _read(_opened(source[name]), name, source.get, True, encoding)
    if isinstance(source, (str, PathLike)):
        file = Path(source)
        whole = file.is_dir()
        if whole:
            names = [one.name for one in file.iterdir() if one.is_file()]
            file /= _only_file(names, file.name or str(file))
        with file.open("rb") as opened:
            return _read(opened, file.name, lambda name: _beside(file, name), whole, encoding)
    label = getattr(source, "name", None)
    name = Path(label).name if isinstance(label, str) else "the file"
    return _read(_opened(source), name, lambda name: None, False, encoding)


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


def _read(
    opened: BinaryIO,
    name: str,
    beside: Callable[[str], Any],
    whole: bool,
    encoding: str | None,
) -> Tokenizer:
    """Return the tokenizer of an open file. `beside` returns the content of another file of its
    folder; `whole` says that the folder was asked for, not the file.
    """
    head = opened.read(4096)
    size = opened.seek(0, 2)
    opened.seek(0)
    if head[:4] == b"GGUF":
        from . import gguf

        return gguf.read(opened, size, name)
    is_json = head.lstrip(b" \t\r\n")[:1] == b"{"
    if not is_json and encoding is None and not name.endswith(".tiktoken"):
        raise TokenizerFormatError(
            f"{name} begins with {head[:12]!r}, which is not a supported tokenizer file; supported: tokenizer.json, *.gguf, *.tiktoken "
            "(with its name or encoding=) and tekken.json"
        )
    data = read_all(opened, name)
    if not is_json:
        from . import tiktoken

        return tiktoken.parse(data, name, encoding)
    # Only tekken.json has these keys; only tokenizer.json has "added_tokens".
    if name == "tekken.json" or (
        (b'"token_bytes"' in head or b'"default_vocab_size"' in head)
        and b'"added_tokens"' not in head
    ):
        from . import tekken

        return tekken.parse(data, name)
    from . import hf_json

    def content(other: str) -> bytes | None:
        found = beside(other)
        return None if found is None else read_all(_opened(found), other)

    return hf_json.read(data, name, content, whole)


def _only_file(names: Iterable[str], where: str) -> str:
    """Return tokenizer.json if a folder has it, otherwise its only other tokenizer file."""
    if "tokenizer.json" in names:
        return "tokenizer.json"
    found = [
        name
        for name in sorted(names)
        if name == "tekken.json" or name.endswith((".gguf", ".tiktoken"))
    ]
    if len(found) == 1:
        return found[0]
    raise TokenizerFormatError(
        f"{where} has no tokenizer.json and not exactly one of tekken.json, *.gguf and *.tiktoken; found: {', '.join(found) or 'none'}; "
        "pass the path of the file itself"
    )
