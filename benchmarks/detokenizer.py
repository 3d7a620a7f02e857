"""Ids to text, beside Hugging Face's DecodeStream (Rust) on the same ids in the same run.

    .venv/bin/python -m benchmarks.detokenizer [--data FOLDER] [--quick]

Prints one JSON object a line: {"bench", "case", "ours", "peer", "peer_name", "unit", "ratio"}.
Microseconds of CPU time a token, the minimum of several runs, ours and theirs by turns. Without the
large test data the vocabularies are the small ones of the tests. It needs no more than the tests
do; benchmarks.streamers has more peers, and benchmarks.growth long streams.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from detok_py import ChatStream, load_tokenizer

from .rows import ROOT, cheapest, documents, options, report

report = partial(report, "detokenizer")
UNIT = "µs/token"
TEXT = "".join(
    path.read_text() for path in (ROOT / "README.md", ROOT / "docs" / "how-decoding-works.md")
)
STOPS = [
    "\nUser:",
    "\nHuman:",
    "</answer>",
    "<|im_end|>",
    "Observation:",
    "\n\n\n\n",
    "\nEND",
    "STOP",
]


def one_by_one(make: Callable[[], Any], ids: list[int]) -> None:
    push = make().push
    for i in ids:
        push(i)


def measure(name: str, document: str, runs: int) -> None:
    theirs = Tokenizer.from_str(document)
    detokenizer = load_tokenizer(document.encode()).detokenizer
    ids = theirs.encode(TEXT, add_special_tokens=False).ids
    ids = (ids * (1 + 20_000 // len(ids)))[:20_000]
    stops = [stop for stop in STOPS if stop not in TEXT]

    def feed() -> None:
        feed = detokenizer().feed
        for at in range(0, len(ids), 64):
            feed(ids[at : at + 64])

    def step() -> None:
        step = DecodeStream(skip_special_tokens=True).step
        for i in ids:
            step(theirs, i)

    push = partial(one_by_one, detokenizer, ids)
    chat = partial(one_by_one, lambda: ChatStream(detokenizer(), stop=stops), ids)
    pushed, fed, chatted, stepped = (
        seconds / len(ids) * 1e6 for seconds in cheapest(runs, push, feed, chat, step)
    )
    peer = (UNIT, stepped, "tokenizers DecodeStream.step")
    report(f"{name}: push, natural text", pushed, *peer)
    report(f"{name}: feed of 64 ids, natural text", fed, *peer)
    case = f"{name}: ChatStream.push, {len(stops)} stops, both tags"
    report(case, chatted, UNIT, pushed, "Detokenizer.push")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    given = parser.parse_args()
    names = ("qwen3", "llama2", "mistral_v1", "gemma2", "bert_uncased")
    for name, document in documents(given.data, names):
        measure(name, document, 3 if given.quick else 7)


if __name__ == "__main__":
    main()
