"""Encoding natural text: CPU time a token beside the Rust libraries, cold and warm, and how time
grows with the text.

    .venv/bin/python -m benchmarks.encode [--data FOLDER] [--runs 5]

Prints one JSON object a line: {"bench", "case", "ours", "peer", "peer_name", "unit", "ratio"}. The
texts are this project's pages (English) and what model/ is trained on (36 languages). "cold" is a
tokenizer that has encoded nothing yet (its patterns compiled by a few letters of another text),
"warm" the same text once more. Nanoseconds are CPU time, the median of the runs, ours and theirs by
turns. The peers run in one thread.
"""

import os
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from detok_py import load_tokenizer
from detok_py.patterns.known import CL100K

from .rows import ROOT, cpu, options, recited, report, unpacked

Encode = Callable[[str], Any]

NAMES = (
    "gpt2",
    "llama3",
    "qwen3",
    "o200k",
    "deepseek_v3",
    "llama2",
    "gemma2",
    "t5_small",
    "xlmr",
    "bert_uncased",
)
WAKE = "Zq 7! ż\n"


def cold_and_warm(runs: int, make: Callable[[], Encode], text: str) -> tuple[float, float]:
    """Return the seconds for a text when it is the first, and when it was encoded before."""
    cold, warm = [], []
    for _ in range(runs):
        encode = make()
        encode(WAKE)
        cold.append(cpu(partial(encode, text)))
        warm.append(min(cpu(partial(encode, text)) for _ in range(2)))
    return statistics.median(cold), statistics.median(warm)


def compare(runs: int, name: str, file: Path, peer: Callable[[], Encode], peer_name: str) -> None:
    """Report each text, cold and warm, beside a peer."""
    for kind, text in texts().items():
        ours = cold_and_warm(runs, lambda: load_tokenizer(file).encode, text)
        theirs = cold_and_warm(runs, peer, text)
        count = len(load_tokenizer(file).encode(text)) / 1e9
        for state, mine, other in zip(("cold", "warm"), ours, theirs, strict=True):
            case = f"{name}, {kind}, {state}"
            report("encode", case, mine / count, "ns a token", other / count, peer_name)


def hugging_face(file: Path) -> Encode:
    """Return the plain encoding of the Rust library."""
    from tokenizers import Tokenizer  # type: ignore[import-untyped]

    tokenizer = Tokenizer.from_str(file.read_text(encoding="utf-8"))
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def tiktoken(ranks: dict[bytes, int]) -> Encode:
    """Return the plain encoding of tiktoken."""
    import tiktoken

    options = {"pat_str": CL100K, "mergeable_ranks": ranks, "special_tokens": {}}
    encode: Encode = tiktoken.Encoding("bench", **options).encode_ordinary
    return encode


def texts() -> dict[str, str]:
    """Return the texts by name: this project's pages, in English, and what the reciting model
    recites, in 36 languages.
    """
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return {
        "English": "\n".join(page.read_text(encoding="utf-8") for page in pages),
        "36 languages": "\n".join(recited().values()),
    }


def growth(name: str, encode: Encode) -> None:
    """Report how time grows: a run of one character ten times as long."""
    for unit in ("a", " ", "é"):
        encode(WAKE)
        short, long = (cpu(partial(encode, unit * count)) for count in (100_000, 1_000_000))
        case = f"{name}, a million of {unit!r} in a row"
        report("encode", case, long * 1000, "ms", short * 1000, "a tenth of it")


def main() -> None:
    os.environ.setdefault("RAYON_NUM_THREADS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    parser = options(__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(NAMES), help="names of tokenizers")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in args.only:
            file = unpacked(args.data, folder, f"{name}/tokenizer.json")
            compare(args.runs, name, file, partial(hugging_face, file), "tokenizers")
        file = unpacked(args.data, folder, "cl100k/cl100k_base.tiktoken")
        vocabulary = load_tokenizer(file).vocabulary
        ranks = {vocabulary.token_bytes(i): i for i in range(100_256)}
        compare(args.runs, "cl100k_base", file, partial(tiktoken, ranks), "tiktoken")
        # One cuts at words, the other doesn't.
        for name in ("qwen3", "llama2"):
            file = unpacked(args.data, folder, f"{name}/tokenizer.json")
            growth(name, load_tokenizer(file).encode)


if __name__ == "__main__":
    main()
