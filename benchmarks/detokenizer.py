"""Ids to text, beside Hugging Face's DecodeStream (Rust) on the same ids in the same run.

    .venv/bin/python -m benchmarks.detokenizer [--data FOLDER] [--quick]

Prints one JSON object a line: {"bench", "case", "ours", "peer", "peer_name", "unit", "ratio"}.
Microseconds of CPU time a token, the minimum of several runs, ours and theirs by turns. Where there
is no peer, the peer is our own figure on short input: the ratio says how flat the cost is. Without
the large test data the vocabularies are the small ones of the tests.
"""

import json
import lzma
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from detok_py import ByteVocabulary, ChatStream, Detokenizer, Vocabulary

from .rows import ROOT, cheapest, options, report

report = partial(report, "detokenizer")
UNIT = "µs/token"
TEXT = "".join(
    path.read_text()
    for path in (ROOT / "README.md", ROOT / "docs" / "how-decoding-works.md")
    if path.exists()
)


def tokenizers(data: Path | None) -> Iterable[tuple[str, str]]:
    """Yield the name and the tokenizer.json of each vocabulary to measure: byte-level,
    SentencePiece and WordPiece ones.
    """
    if data is None:
        sys.path.insert(0, str(ROOT / "tests"))
        import small_tokenizers

        for name in ("byte_level", "sentencepiece", "wordpiece"):
            yield "small " + name, json.dumps(getattr(small_tokenizers, name)())
        return
    for name in ("qwen3", "llama2", "mistral_v1", "gemma2", "bert_uncased"):
        yield (
            name,
            lzma.decompress(
                (data / "tokenizers" / name / "tokenizer.json.xz").read_bytes()
            ).decode(),
        )


def vocabulary_of(tokenizer: Tokenizer, document: str) -> Vocabulary:
    found = json.loads(document)
    size = tokenizer.get_vocab_size()
    special = [
        token["id"] for token in found["added_tokens"] if token["special"] and token["id"] < size
    ]
    return Vocabulary.from_pieces(
        [tokenizer.id_to_token(i) for i in range(size)], found["decoder"], special
    )


def beside_hugging_face(name: str, document: str, runs: int) -> None:
    tokenizer = Tokenizer.from_str(document)
    vocabulary = vocabulary_of(tokenizer, document)
    ids = tokenizer.encode(TEXT, add_special_tokens=False).ids
    ids = (ids * (1 + 20_000 // len(ids)))[:20_000]

    def push() -> None:
        push = Detokenizer(vocabulary).push
        for i in ids:
            push(i)

    def feed() -> None:
        feed = Detokenizer(vocabulary).feed
        for at in range(0, len(ids), 64):
            feed(ids[at : at + 64])

    def step() -> None:
        step = DecodeStream(skip_special_tokens=True).step
        for i in ids:
            step(tokenizer, i)

    pushed, fed, stepped = (
        seconds / len(ids) * 1e6 for seconds in cheapest(runs, push, feed, step)
    )
    report(f"{name}: push, natural text", pushed, UNIT, stepped, "tokenizers DecodeStream.step")
    report(
        f"{name}: feed of 64 ids, natural text", fed, UNIT, stepped, "tokenizers DecodeStream.step"
    )


def flat(runs: int, longest: int) -> None:
    """Report what a push costs on long streams, beside short ones."""
    letters = ByteVocabulary()
    runs_of = Vocabulary.from_pieces(
        [f"<0x{b:02X}>" for b in range(256)] + ["▁a"],
        {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
    )

    def pushing(make: Callable[[], Detokenizer], unit: list[int], count: int) -> Callable[[], None]:
        ids = unit * (count // len(unit))

        def run() -> None:
            push = make().push
            for i in ids:
                push(i)

        return run

    def length(unit: list[int], count: int) -> int:
        return len(unit) * (count // len(unit))

    cases = [
        ("text", lambda: Detokenizer(letters), list(TEXT[:500].encode()), longest),
        ("genuine U+FFFD", lambda: Detokenizer(letters), [0xEF, 0xBF, 0xBD], longest // 10),
        ("lone byte tokens", lambda: Detokenizer(runs_of), [0xE4], longest // 10),
        (
            "lone byte tokens, hf mode",
            lambda: Detokenizer(runs_of, byte_fallback="hf"),
            [0xE4],
            longest // 10,
        ),
        (
            "one byte run of good text, hf mode",
            lambda: Detokenizer(runs_of, byte_fallback="hf"),
            [0x41],
            longest // 10,
        ),
    ]
    for name, make, unit, count in cases:
        short = [pushing(make, unit, 1000)] * 1

        def thousand_runs(one: Callable[[], None] = short[0], times: int = count // 1000) -> None:
            for _ in range(times):
                one()

        long_cost, short_cost = cheapest(runs, pushing(make, unit, count), thousand_runs)
        short_count = length(unit, 1000) * (count // 1000)
        ours, theirs = long_cost / length(unit, count) * 1e6, short_cost / short_count * 1e6
        case = f"{name}: {count} pushes against 1000 at a time"
        report(case, ours, UNIT, theirs, "the same, short")


def stack(name: str, document: str, runs: int) -> None:
    """Report what a ChatStream with stops and tags costs, beside the bare push."""
    tokenizer = Tokenizer.from_str(document)
    vocabulary = vocabulary_of(tokenizer, document)
    ids = tokenizer.encode(TEXT, add_special_tokens=False).ids[:10_000]
    stops = [
        "\nUser:",
        "\nHuman:",
        "###",
        "</answer>",
        "<|im_end|>",
        "Observation:",
        "\n\n\n\n",
        "END",
    ]

    def bare() -> None:
        push = Detokenizer(vocabulary).push
        for i in ids:
            push(i)

    def whole() -> None:
        chat = ChatStream(
            Detokenizer(vocabulary), stop=[stop for stop in stops if stop not in TEXT]
        )
        for i in ids:
            chat.feed([i])

    def pushed() -> None:
        push = ChatStream(
            Detokenizer(vocabulary), stop=[stop for stop in stops if stop not in TEXT]
        ).push
        for i in ids:
            push(i)

    a, b, c = (seconds / len(ids) * 1e6 for seconds in cheapest(runs, whole, pushed, bare))
    report(f"{name}: ChatStream.feed of one id, 8 stops, both tags", a, UNIT, c, "Detokenizer.push")
    report(f"{name}: ChatStream.push, 8 stops, both tags", b, UNIT, c, "Detokenizer.push")


def making(runs: int) -> None:
    vocabulary = Vocabulary.from_bytes([b"x"] * 150_000)
    (ours,) = cheapest(runs, lambda: [Detokenizer(vocabulary) for _ in range(1000)])
    report("making a Detokenizer for 150,000 tokens", ours, "ms", 1.0, "the bar: 1 ms")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    given = parser.parse_args()
    runs = 3 if given.quick else 7
    data = given.data if given.data.is_dir() else None
    for name, document in tokenizers(data):
        beside_hugging_face(name, document, runs)
    name, document = next(iter(tokenizers(data)))
    stack(name, document, runs)
    flat(max(2, runs // 2), 100_000 if given.quick else 1_000_000)
    making(runs)


if __name__ == "__main__":
    main()
