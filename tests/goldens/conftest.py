"""Fixtures for the large tokenizers and the results of other libraries, from the test data."""

import gzip
import json
import lzma
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from detok_py.tokenizers import Tokenizer, load_tokenizer

Load = Callable[..., Tokenizer]


@pytest.fixture(scope="session")
def tokenizer_file(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the function that unpacks a file such as "qwen3/tokenizer.json" with its folder."""
    unpacked = tmp_path_factory.mktemp("tokenizers")

    def file(name: str) -> Path:
        folder = unpacked / Path(name).parent
        if not folder.exists():
            folder.mkdir(parents=True)
            for source in sorted((data / "tokenizers" / folder.name).iterdir()):
                if source.suffix == ".xz":
                    with lzma.open(source) as packed, (folder / source.stem).open("wb") as out:
                        shutil.copyfileobj(packed, out)
                else:
                    (folder / source.name).write_bytes(source.read_bytes())
        return unpacked / name

    return file


@pytest.fixture(scope="session")
def load(tokenizer_file: Callable[[str], Path]) -> Load:
    """Return the function that loads a tokenizer by name; it caches the last one."""
    kept: dict[tuple[str, str | None], Tokenizer] = {}

    def loaded(name: str, encoding: str | None = None) -> Tokenizer:
        if (name, encoding) not in kept:
            kept.clear()
            kept[name, encoding] = load_tokenizer(tokenizer_file(name), encoding)
        return kept[name, encoding]

    return loaded


@pytest.fixture(scope="session")
def golden(data: Path) -> Callable[[str, str], Iterator[dict[str, Any]]]:
    """Return the function that yields a set's cases of a kind: "decode", "encode" or "stream"."""

    def cases(name: str, kind: str) -> Iterator[dict[str, Any]]:
        with gzip.open(
            data / "golden" / name / f"{kind}.jsonl.gz", "rt", encoding="utf-8"
        ) as lines:
            for line in lines:
                yield json.loads(line)

    return cases
