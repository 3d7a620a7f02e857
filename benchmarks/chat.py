"""What stops, tags and markers cost: the whole stack with 8 stops beside the bare detokenizer, and
any text beside ordinary text.

`python -m benchmarks.chat` prints a JSON object a line; CPU time, the median of several runs, both
sides in turn.
"""

import re
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from detok_py import ChatStream, Detokenizer, StreamingDetokenizer, Vocabulary

from .rows import ROOT, by_turns, report

STOPS = ["STOP", "\nUser:", "\nHuman:", "<|end|>", "Question:", "#!#", "</answer>", "END OF TEXT"]
RUNS = 9


def natural() -> tuple[list[int], Vocabulary]:
    """Return the project's own prose as ids of words, the way tokens look: a space and a word, a
    mark, a newline.
    """
    text = "".join(
        path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))
    )
    for word in [*STOPS, "<think>", "</think>", "<tool_call>", "</tool_call>"]:
        text = text.replace(word, "")
    pieces = re.findall(r" ?\w{1,7}|\s|[^\w\s]", text)
    table = sorted(set(pieces))
    ids = {piece: i for i, piece in enumerate(table)}
    return [ids[piece] for piece in pieces], Vocabulary.from_bytes(
        [piece.encode() for piece in table]
    )


def compare(
    case: str,
    unit: str,
    ours: Callable[[], Any],
    peer: Callable[[], Any],
    peer_name: str,
    units: tuple[int, int],
    runs: int = RUNS,
) -> None:
    """Report a call beside another, for each of its units. The first run fills the tables."""
    columns = [times[1:] for times in by_turns(runs + 1, ours, peer)]
    mine, theirs = (median(times) / n * 1e6 for times, n in zip(columns, units, strict=True))
    ratio = median(a / units[0] / (b / units[1]) for a, b in zip(*columns, strict=True))
    report("chat", case, mine, unit, theirs, peer_name, ratio=round(ratio, 2))


def push(stream: Any, ids: list[int]) -> None:
    take = stream.push
    for i in ids:
        take(i)


def feed(stream: Any, chunks: list[Any]) -> None:
    take = stream.feed
    for chunk in chunks:
        take(chunk)


def main() -> None:
    ids, table = natural()
    chunks = [ids[at : at + 64] for at in range(0, len(ids), 64)]
    bare = "Detokenizer alone"

    def stack() -> ChatStream:
        return ChatStream(Detokenizer(table), STOPS)

    compare(
        "push, 8 stops and both tags",
        "us/token",
        lambda: push(stack(), ids),
        lambda: push(Detokenizer(table), ids),
        bare,
        (len(ids), len(ids)),
    )
    compare(
        "feed of 64, 8 stops and both tags",
        "us/token",
        lambda: feed(stack(), chunks),
        lambda: feed(Detokenizer(table), chunks),
        bare,
        (len(ids), len(ids)),
    )
    # Linear on any text: eight times as much costs eight times as much, whatever it is made of.
    worst = {
        "<": "<",
        "a stop but its end": "STO",
        "markers": "<|im_end|>",
        "beginnings of tags": "</thin<think",
        "newlines": "\n",
        "aaaa…b": "a",
    }
    for name, unit in worst.items():
        stops = [*STOPS, "a" * 500 + "b"]
        few, many = ([unit.encode()] * count for count in (2_000, 16_000))

        def run(chunks: list[bytes], stops: list[str] = stops) -> None:
            stream = ChatStream(StreamingDetokenizer(), stops)
            feed(stream, chunks)
            stream.flush()

        compare(
            "16,000 pushes of " + name,
            "us/push",
            partial(run, many),
            partial(run, few),
            "2,000 of them",
            (16_000, 2_000),
            3,
        )


if __name__ == "__main__":
    main()
