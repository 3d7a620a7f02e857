"""Tokenizer files: how long loading takes, and packing, beside the Rust library on the same file in
the same run.

    .venv/bin/python -m benchmarks.tokenizers [--data FOLDER] [--runs 5]

Prints one JSON object a line: {"bench", "case", "ours", "peer", "peer_name", "unit", "ratio"}.
Milliseconds are CPU time, the median of the runs, ours and theirs by turns. "ready to encode" is a
fresh load and the first text. Where there is no peer, the peer is the bar that was set.
"""

import argparse
import gc
import json
import lzma
import os
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from detok_py import Vocabulary, load_tokenizer

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("qwen3", "llama3", "gemma2", "gpt2", "xlmr", "bert_uncased")
FIRST = "The ferry leaves at dawn, and nobody on the pier seems surprised: 3 boats, 12 people — and 你好."


def report(case: str, ours: float, peer: float | None, peer_name: str, unit: str = "ms") -> None:
    ratio = None if peer is None else round(ours / peer, 3)
    print(
        json.dumps(
            {
                "bench": "tokenizers",
                "case": case,
                "ours": round(ours, 3),
                "peer": peer and round(peer, 3),
                "peer_name": peer_name,
                "unit": unit,
                "ratio": ratio,
            }
        ),
        flush=True,
    )


def cpu(run: Callable[[], Any]) -> float:
    """Return the milliseconds of CPU that a call takes."""
    gc.collect()
    began = time.process_time()
    run()
    return (time.process_time() - began) * 1000


def by_turns(runs: int, *calls: Callable[[], Any]) -> list[float]:
    """Return the median milliseconds of each call, measured by turns so that what else the machine
    does hits all alike.
    """
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(runs):
        for took, call in zip(times, calls, strict=True):
            took.append(cpu(call))
    return [statistics.median(took) for took in times]


def unpacked(data: Path, folder: Path, name: str) -> Path:
    """Return a file of the test data, unpacked."""
    source = data / "tokenizers" / name
    if source.exists():
        return source
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    with lzma.open(source.with_name(source.name + ".xz")) as packed:
        file.write_bytes(packed.read())
    return file


def main() -> None:
    from tokenizers import Tokenizer  # type: ignore[import-untyped]

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("DETOK_DATA", ROOT.parent / "shared" / "data")),
    )
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    if not (args.data / "tokenizers").is_dir():
        raise SystemExit(
            f"{args.data} has no tokenizers; name the folder of the test data with --data or DETOK_DATA."
        )

    load_tokenizer(unpacked(args.data, Path(tempfile.mkdtemp()), "gpt2/tokenizer.json")).encode(
        "a"
    )  # imports are paid here
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in NAMES:
            file = unpacked(args.data, folder, f"{name}/tokenizer.json")
            ours, theirs, ready = by_turns(
                args.runs,
                lambda file=file: load_tokenizer(file),
                lambda file=file: Tokenizer.from_str(file.read_text(encoding="utf-8")),
                lambda file=file: load_tokenizer(file).encode(FIRST),
            )
            report(f"load {name} to decode", ours, theirs, "tokenizers from_str")
            report(f"load {name} ready to encode", ready, theirs, "tokenizers from_str")
        for name in (
            "qwen2_5/ggml-vocab-qwen2.gguf",
            "llama3/ggml-vocab-llama-bpe.gguf",
            "llama2/ggml-vocab-llama-spm.gguf",
        ):
            file = unpacked(args.data, folder, name)
            large = folder / "large.gguf"
            large.write_bytes(file.read_bytes())
            os.truncate(large, 20_000_000_000)
            small, sparse = by_turns(
                args.runs,
                lambda file=file: load_tokenizer(file),
                lambda large=large: load_tokenizer(large),
            )
            report(
                f"load {name.rpartition('/')[2]} as a file of 20 GB",
                sparse,
                small,
                "the vocabulary alone",
            )
            tracemalloc.start()
            load_tokenizer(file)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            report(
                f"memory to load {name.rpartition('/')[2]}",
                peak / file.stat().st_size,
                4,
                "bar",
                "times the bytes read",
            )
        for name, encoding in (
            ("cl100k/cl100k_base.tiktoken", None),
            ("o200k/o200k_base.tiktoken", None),
            ("mistral_nemo/tekken_240718.json", None),
        ):
            file = unpacked(args.data, folder, name)
            report(
                f"load {name.rpartition('/')[2]}",
                by_turns(
                    args.runs, lambda file=file, encoding=encoding: load_tokenizer(file, encoding)
                )[0],
                None,
                "none",
            )

        file = unpacked(args.data, folder, "qwen3/tokenizer.json")
        packed: list[bytes] = []

        def pack() -> None:
            packed.append(vocabulary.pack())

        times = []
        for _ in range(args.runs):
            vocabulary = load_tokenizer(file).vocabulary
            times.append(cpu(pack))
        report("pack qwen3", statistics.median(times), 500, "bar")
        report("size of qwen3 packed", len(packed[0]) / 1e6, 1.2, "bar", "MB")
        report(
            "unpack qwen3", by_turns(args.runs, lambda: Vocabulary.unpack(packed[0]))[0], 20, "bar"
        )


if __name__ == "__main__":
    main()
