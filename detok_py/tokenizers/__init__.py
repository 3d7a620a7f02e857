"""Tokenizer files: load one, whatever its format."""

from os import PathLike
from pathlib import Path
from typing import Union

from ..errors import TokenizerFormatError
from .tokenizer import Tokenizer

__all__ = ["Tokenizer", "load_tokenizer"]


def load_tokenizer(path: Union[str, "PathLike[str]"], encoding: str | None = None) -> Tokenizer:
    """Return the tokenizer of a file or folder, told by what it holds.

    tokenizer.json or its folder (Hugging Face), *.gguf (llama.cpp), *.tiktoken (OpenAI, Qwen), tekken.json (Mistral). A tiktoken file
    holds neither its pattern nor its special tokens: they are known by its name, or by `encoding`: "cl100k_base", "o200k_base",
    "o200k_harmony", "p50k_base", "p50k_edit", "r50k_base", "gpt2", "qwen". Nothing is fetched, and of a GGUF file only the
    header is read. Raises TokenizerFormatError if the file is not one of these or is damaged, OSError if it can't be read.
    """
    file = Path(path)
    if file.is_dir():
        file = _in_folder(file)
        if file.name == "tokenizer.json":
            from . import hf_json

            return hf_json.read(file.parent)
    with file.open("rb") as opened:
        head = opened.read(4096)
    if head[:4] == b"GGUF":
        from . import gguf

        return gguf.read(file)
    if head.lstrip(b" \t\r\n")[:1] == b"{":
        # The two JSON files are told apart by a key that the one always has and the other never.
        if file.name == "tekken.json" or ((b'"token_bytes"' in head or b'"default_vocab_size"' in head) and b'"added_tokens"' not in head):
            from . import tekken

            return tekken.read(file)
        from . import hf_json

        return hf_json.read(file)
    if encoding is not None or file.suffix == ".tiktoken":
        from . import tiktoken

        return tiktoken.read(file, encoding)
    raise TokenizerFormatError(
        f"{file.name} begins with {head[:12]!r}, which is no tokenizer file that detok reads: those are tokenizer.json, *.gguf, *.tiktoken "
        "and tekken.json"
    )


def _in_folder(folder: Path) -> Path:
    """Return the tokenizer file of a model's folder: tokenizer.json before the others, which have to be the only one."""
    if (folder / "tokenizer.json").is_file():
        return folder / "tokenizer.json"
    found = [file for pattern in ("tekken.json", "*.gguf", "*.tiktoken") for file in sorted(folder.glob(pattern))]
    if len(found) == 1:
        return found[0]
    has = ", ".join(file.name for file in found) or "none"
    raise TokenizerFormatError(
        f"{folder.name or folder} holds no tokenizer.json, and of tekken.json, *.gguf and *.tiktoken it should hold one: it has {has}; "
        "name the file itself"
    )
