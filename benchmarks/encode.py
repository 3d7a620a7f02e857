"""Encoding natural text: CPU time a token beside the Rust libraries, cold and warm, and how time
grows with the text.

    .venv/bin/python -m benchmarks.encode [--data FOLDER] [--runs 5]

Prints one JSON object a line: {"bench", "case", "ours", "peer", "peer_name", "unit", "ratio"}. The
texts are this project's pages (English) and what model/ is trained on (36 languages). "cold" is a
tokenizer that has encoded nothing yet (its patterns compiled by a few letters of another text),
"warm" the same text once more. Nanoseconds are CPU time, the median of the runs, ours and theirs by
turns. The peers run in one thread.
"""

import argparse
import gc
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.tokenizers import ROOT, unpacked
from detok_py import load_tokenizer
from detok_py.patterns.known import CL100K

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


def report(case: str, ours: float, peer: float, peer_name: str, unit: str) -> None:
    print(
        json.dumps(
            {
                "bench": "encode",
                "case": case,
                "ours": round(ours, 1),
                "peer": round(peer, 1),
                "peer_name": peer_name,
                "unit": unit,
                "ratio": round(ours / peer, 2),
            }
        ),
        flush=True,
    )


def cpu(run: Callable[[], Any]) -> float:
    """Return the nanoseconds of CPU that a call takes."""
    gc.collect()
    began = time.process_time_ns()
    run()
    return time.process_time_ns() - began


def cold_and_warm(
    runs: int, make: Callable[[], Callable[[str], Any]], text: str
) -> tuple[float, float]:
    """Return the nanoseconds for a text when it is the first, and when it was encoded before."""
    cold, warm = [], []
    for _ in range(runs):
        encode = make()
        encode(WAKE)
        cold.append(cpu(lambda encode=encode: encode(text)))
        warm.append(min(cpu(lambda encode=encode: encode(text)) for _ in range(2)))
    return statistics.median(cold), statistics.median(warm)


def texts() -> dict[str, str]:
    """Return the texts by name: this project's pages, in English, and what the reciting model
    recites, in 36 languages.
    """
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    recited = json.loads((ROOT / "detok_py/bridge/recite/texts.json").read_text("utf-8"))
    return {
        "English": "\n".join(page.read_text(encoding="utf-8") for page in pages),
        "36 languages": "\n".join(one["text"] for one in recited),
    }


def main() -> None:
    os.environ.setdefault("RAYON_NUM_THREADS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import tiktoken
    from tokenizers import Tokenizer  # type: ignore[import-untyped]

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("DETOK_DATA", ROOT.parent / "shared" / "data")),
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(NAMES), help="names of tokenizers")
    args = parser.parse_args()
    if not (args.data / "tokenizers").is_dir():
        raise SystemExit(
            f"{args.data} has no tokenizers; name the folder of the test data with --data or DETOK_DATA."
        )

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in args.only:
            file = unpacked(args.data, folder, f"{name}/tokenizer.json")
            source = file.read_text(encoding="utf-8")
            for kind, text in texts().items():
                ours = cold_and_warm(args.runs, lambda file=file: load_tokenizer(file).encode, text)
                theirs = cold_and_warm(
                    args.runs, lambda source=source: peer(Tokenizer.from_str(source)), text
                )
                count = len(load_tokenizer(file).encode(text))
                for state, mine, other in zip(("cold", "warm"), ours, theirs, strict=True):
                    report(
                        f"{name}, {kind}, {state}",
                        mine / count,
                        other / count,
                        "tokenizers",
                        "ns a token",
                    )
        file = unpacked(args.data, folder, "cl100k/cl100k_base.tiktoken")
        tokenizer = load_tokenizer(file)
        ranks = {tokenizer.vocabulary.token_bytes(i): i for i in range(100_256)}
        for kind, text in texts().items():
            ours = cold_and_warm(args.runs, lambda: load_tokenizer(file).encode, text)
            theirs = cold_and_warm(
                args.runs,
                lambda: (
                    tiktoken.Encoding(
                        "bench", pat_str=CL100K, mergeable_ranks=ranks, special_tokens={}
                    ).encode_ordinary
                ),
                text,
            )
            count = len(tokenizer.encode(text))
            for state, mine, other in zip(("cold", "warm"), ours, theirs, strict=True):
                report(
                    f"cl100k_base, {kind}, {state}",
                    mine / count,
                    other / count,
                    "tiktoken",
                    "ns a token",
                )

        # How time grows: a run of one character ten times as long, in a tokenizer that cuts at
        # words and in one that doesn't.
        for name in ("qwen3", "llama2"):
            encode = load_tokenizer(unpacked(args.data, folder, f"{name}/tokenizer.json")).encode
            for unit in ("a", " ", "é"):
                encode(WAKE)
                short, long = (
                    cpu(lambda unit=unit, encode=encode: encode(unit * 100_000)),
                    cpu(lambda unit=unit, encode=encode: encode(unit * 1_000_000)),
                )
                report(
                    f"{name}, a million of {unit!r} in a row",
                    long / 1e6,
                    short / 1e6,
                    "a tenth of it",
                    "ms",
                )


def peer(tokenizer: Any) -> Callable[[str], Any]:
    """Return the peer's plain encoding."""
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


if __name__ == "__main__":
    main()
