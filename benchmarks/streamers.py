"""Ids to text in Python: detok and other systems by turns, on the same ids.

    PYTHONPATH=. .build/peers/venv/bin/python -m benchmarks.streamers [--data FOLDER]

Prints one JSON object a line: {"bench", "case", "system", "value", "unit"}: CPU microseconds a
token, the least of several turns. Needs what `make peers` installs. Without the large test data the
vocabularies are the small ones of the tests.
"""

import io
import sys
from collections.abc import Callable
from typing import Any

import mlx_lm.tokenizer_utils as mlx
import numpy
import transformers
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

import detok_py

from .rows import TEN, cheapest, documents, options, recited, report_system

TURNS = 5
TITLES = {
    "gpt2": "byte-level (GPT-2)",
    "llama2": "SentencePiece (Llama 2)",
    "small byte_level": "byte-level (small)",
    "small sentencepiece": "SentencePiece (small)",
}


def systems(what: str, document: str, ids: list[int]) -> dict[str, Callable[[], Any]]:
    """Return for each system a run through all ids, the stream made anew."""
    ours = detok_py.load_tokenizer(document.encode())
    real = Tokenizer.from_str(document)
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=real)
    arrays = [numpy.array([i]) for i in ids]
    is_bpe = what.startswith("byte-level")
    kind = mlx.BPEStreamingDetokenizer if is_bpe else mlx.SPMStreamingDetokenizer
    naive = mlx.NaiveStreamingDetokenizer(wrapped)
    made = kind(wrapped)

    def push() -> None:
        push = ours.detokenizer().push
        for i in ids:
            push(i)

    def chat() -> None:
        push = detok_py.ChatStream(ours.detokenizer(), stop=["\nUser:", "</s>"]).push
        for i in ids:
            push(i)

    def step() -> None:
        step = DecodeStream(skip_special_tokens=True).step
        for i in ids:
            step(real, i)

    def segments(detokenizer: Any) -> Callable[[], None]:
        def run() -> None:
            detokenizer.reset()
            for i in ids:
                detokenizer.add_token(i)
                _ = detokenizer.last_segment
            detokenizer.finalize()

        return run

    def streamer() -> None:
        stdout, sys.stdout = sys.stdout, io.StringIO()
        try:
            stream = transformers.TextStreamer(wrapped, skip_special_tokens=True)
            for array in arrays:
                stream.put(array)
            stream.end()
        finally:
            sys.stdout = stdout

    return {
        "detok_py Detokenizer.push": push,
        "detok_py ChatStream.push, stops and tags": chat,
        "tokenizers DecodeStream.step": step,
        f"mlx-lm {kind.__name__}": segments(made),
        "mlx-lm NaiveStreamingDetokenizer": segments(naive),
        "transformers TextStreamer.put": streamer,
    }


def main() -> None:
    data = options(__doc__).parse_args().data
    found, texts = dict(documents(data, ("gpt2", "llama2"))), recited()
    natural = "\n".join([texts[name] for name in TEN])
    for name, what in TITLES.items():
        if name not in found:
            continue
        document = found[name]
        ids = Tokenizer.from_str(document).encode(natural, add_special_tokens=False).ids[:3000]
        runs = systems(what, document, ids)
        for system, seconds in zip(runs, cheapest(TURNS, *runs.values()), strict=True):
            value = seconds / len(ids) * 1e6
            report_system("native", f"ids to text, {what}", system, value, "µs a token")


if __name__ == "__main__":
    main()
