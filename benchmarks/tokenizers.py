"""Tokenizer files: how long loading takes, and packing, beside the Rust library on the same file in
the same run.

    .venv/bin/python -m benchmarks.tokenizers [--data FOLDER] [--runs 5]

Prints one JSON object a line: {"bench", "case", "ours", "peer", "peer_name", "unit", "ratio"}.
Milliseconds are CPU time, the median of the runs, ours and theirs by turns. "ready to encode" is a
fresh load and the first text. Where there is no peer, the peer is the bar that was set.
"""

import os
import tempfile
import tracemalloc
from functools import partial
from pathlib import Path
from statistics import median

from detok_py import Vocabulary, load_tokenizer

from .rows import cpu, medians, options, report, unpacked

report = partial(report, "tokenizers")
NAMES = ("qwen3", "llama3", "gemma2", "gpt2", "xlmr", "bert_uncased")
GGUF = (
    "qwen2_5/ggml-vocab-qwen2.gguf",
    "llama3/ggml-vocab-llama-bpe.gguf",
    "llama2/ggml-vocab-llama-spm.gguf",
)
RANKS = (
    "cl100k/cl100k_base.tiktoken",
    "o200k/o200k_base.tiktoken",
    "mistral_nemo/tekken_240718.json",
)
FIRST = "The ferry leaves at dawn, and nobody on the pier seems surprised: 3 boats, 12 people — and 你好."


def loading(data: Path, folder: Path, runs: int) -> None:
    """Report how long each family takes to load, beside the Rust library."""
    from tokenizers import Tokenizer  # type: ignore[import-untyped]

    for name in NAMES:
        file = unpacked(data, folder, f"{name}/tokenizer.json")
        ours, theirs, ready = medians(
            runs,
            partial(load_tokenizer, file),
            lambda file=file: Tokenizer.from_str(file.read_text(encoding="utf-8")),
            lambda file=file: load_tokenizer(file).encode(FIRST),
        )
        peer = (theirs * 1000, "tokenizers from_str")
        report(f"load {name} to decode", ours * 1000, "ms", *peer)
        report(f"load {name} ready to encode", ready * 1000, "ms", *peer)
    for name in RANKS:
        (took,) = medians(runs, partial(load_tokenizer, unpacked(data, folder, name)))
        report(f"load {name.rpartition('/')[2]}", took * 1000, "ms")


def gguf(data: Path, folder: Path, runs: int) -> None:
    """Report that a large file costs what its vocabulary costs."""
    for name in GGUF:
        file, title = unpacked(data, folder, name), name.rpartition("/")[2]
        large = folder / "large.gguf"
        large.write_bytes(file.read_bytes())
        os.truncate(large, 20_000_000_000)
        small, sparse = medians(runs, partial(load_tokenizer, file), partial(load_tokenizer, large))
        case = f"load {title} as a file of 20 GB"
        report(case, sparse * 1000, "ms", small * 1000, "the vocabulary alone")
        tracemalloc.start()
        load_tokenizer(file)
        peak = tracemalloc.get_traced_memory()[1] / file.stat().st_size
        tracemalloc.stop()
        report(f"memory to load {title}", peak, "times the bytes read", 4)


def packing(file: Path, runs: int) -> None:
    """Report what it costs to send a vocabulary to a page."""
    # A vocabulary keeps what it has packed.
    times = [cpu(load_tokenizer(file).vocabulary.pack) for _ in range(runs)]
    packed = load_tokenizer(file).vocabulary.pack()
    report("pack qwen3", median(times) * 1000, "ms", 500)
    report("size of qwen3 packed", len(packed) / 1e6, "MB", 1.2)
    (took,) = medians(runs, partial(Vocabulary.unpack, packed))
    report("unpack qwen3", took * 1000, "ms", 20)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        file = unpacked(args.data, folder, "gpt2/tokenizer.json")
        load_tokenizer(file).encode("a")  # imports are paid here
        loading(args.data, folder, args.runs)
        gguf(args.data, folder, args.runs)
        packing(unpacked(args.data, folder, "qwen3/tokenizer.json"), args.runs)


if __name__ == "__main__":
    main()
