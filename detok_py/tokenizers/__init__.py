"""Load tokenizer files of every supported format.

Runs in: CPython, Pyodide.
Imports: errors, decode, patterns.
"""

from os import PathLike
from pathlib import Path
from typing import Union

from ..errors import TokenizerFormatError
from .tokenizer import Tokenizer

__all__ = ["Tokenizer", "load_tokenizer"]


def load_tokenizer(path: Union[str, "PathLike[str]"], encoding: str | None = None) -> Tokenizer:
    """Return the tokenizer of a file or folder; the format is detected from the content.

    Reads tokenizer.json or its folder (Hugging Face), *.gguf (llama.cpp), *.tiktoken (OpenAI, Qwen)
    and tekken.json (Mistral). A tiktoken file contains neither its pattern nor its special tokens;
    they follow from the file name or from `encoding`: "cl100k_base", "o200k_base", "o200k_harmony",
    "p50k_base", "p50k_edit", "r50k_base", "gpt2", "qwen". Nothing is downloaded. Of a GGUF file
    only the header is read. Raises TokenizerFormatError if the file has another format or is
    damaged, OSError if it can't be read.
    """
    file = Path(path)
    if file.is_dir():
        file = _find_in_folder(file)
        if file.name == "tokenizer.json":
            from . import hf_json

            return hf_json.read(file.parent)
    with file.open("rb") as opened:
        head = opened.read(4096)
    if head[:4] == b"GGUF":
        from . import gguf

        return gguf.read(file)
    if head.lstrip(b" \t\r\n")[:1] == b"{":
        # Only tekken.json has these keys; only tokenizer.json has "added_tokens".
        if file.name == "tekken.json" or (
            (b'"token_bytes"' in head or b'"default_vocab_size"' in head)
            and b'"added_tokens"' not in head
        ):
            from . import tekken

            return tekken.read(file)
        from . import hf_json

        return hf_json.read(file)
    if encoding is not None or file.suffix == ".tiktoken":
        from . import tiktoken

        return tiktoken.read(file, encoding)
    raise TokenizerFormatError(
        f"{file.name} begins with {head[:12]!r}, which is not a supported tokenizer file; supported: tokenizer.json, *.gguf, *.tiktoken "
        "and tekken.json"
    )


def _find_in_folder(folder: Path) -> Path:
    """Return tokenizer.json if the folder has it, otherwise its only other tokenizer file."""
    if (folder / "tokenizer.json").is_file():
        return folder / "tokenizer.json"
    found = [
        file
        for pattern in ("tekken.json", "*.gguf", "*.tiktoken")
        for file in sorted(folder.glob(pattern))
    ]
    if len(found) == 1:
        return found[0]
    has = ", ".join(file.name for file in found) or "none"
    raise TokenizerFormatError(
        f"{folder.name or folder} has no tokenizer.json and not exactly one of tekken.json, *.gguf and *.tiktoken; found: {has}; "
        "pass the path of the file itself"
    )
