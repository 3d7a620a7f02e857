"""Ids to text in Python: detok and other systems by turns, on the same ids.

    PYTHONPATH=. .build/peers/venv/bin/python -m benchmarks.streamers [--data FOLDER]

Prints one JSON object a line: {"bench", "case", "system", "value", "unit"}: CPU microseconds a
token, the least of several turns. Needs what `make peers` installs. Without the large test data the
vocabularies are the small ones of the tests.
"""

import io
import json
import lzma
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx_lm.tokenizer_utils as mlx
import numpy
import transformers
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

import detok_py

from .rows import ROOT, cheapest, options, report_system

TURNS = 5


def documents(data: Path) -> dict[str, str]:
    """Return a byte-level and a SentencePiece tokenizer.json."""
    if data.is_dir():
        read = {"byte-level (GPT-2)": "gpt2", "SentencePiece (Llama 2)": "llama2"}
        path = data / "tokenizers"
        return {
            what: lzma.decompress((path / name / "tokenizer.json.xz").read_bytes()).decode()
            for what, name in read.items()
        }
    sys.path.insert(0, str(ROOT / "tests"))
    import small_tokenizers as small

    return {
        "byte-level (small)": json.dumps(small.byte_level()),
        "SentencePiece (small)": json.dumps(small.sentencepiece()),
    }


def natural() -> str:
    """Return text in ten languages."""
    texts = json.loads((ROOT / "detok_py/bridge/recite/texts.json").read_text("utf-8"))
    wanted = ("en", "de", "fr", "es", "ru", "ar", "hi", "ja", "ko", "zh-hans")
    return "\n".join([each["text"] for each in texts if each["id"] in wanted])


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
    given = options(__doc__).parse_args()
    for what, document in documents(given.data).items():
        ids = Tokenizer.from_str(document).encode(natural(), add_special_tokens=False).ids[:3000]
        runs = systems(what, document, ids)
        for name, seconds in zip(runs, cheapest(TURNS, *runs.values()), strict=True):
            value = seconds / len(ids) * 1e6
            report_system("native", f"ids to text, {what}", name, value, "µs a token")


if __name__ == "__main__":
    main()
