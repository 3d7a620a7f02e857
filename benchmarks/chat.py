"""What stops, tags and markers cost: the whole stack with 8 stops beside the bare detokenizer, and
any text beside ordinary text.

`python -m benchmarks.chat` prints a JSON object a line; CPU time, the median of several runs, both
sides in turn.
"""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from detok_py import ChatStream, Detokenizer, StreamingDetokenizer, Vocabulary

ROOT = Path(__file__).resolve().parent.parent
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


def cpu(run: Callable[[], Any]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def compare(
    case: str, ours: Callable[[], Any], peer: Callable[[], Any], peer_name: str, units: int
) -> None:
    times = [(cpu(ours), cpu(peer)) for _ in range(RUNS + 1)][1:]  # the first run fills the tables
    mine, theirs = (median(column) / units * 1e6 for column in zip(*times))
    row = {
        "bench": "chat",
        "case": case,
        "ours": round(mine, 4),
        "peer": round(theirs, 4),
        "peer_name": peer_name,
        "unit": "us/token",
    }
    print(json.dumps(row | {"ratio": round(median(a / b for a, b in times), 2)}))


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
        lambda: push(stack(), ids),
        lambda: push(Detokenizer(table), ids),
        bare,
        len(ids),
    )
    compare(
        "feed of 64, 8 stops and both tags",
        lambda: feed(stack(), chunks),
        lambda: feed(Detokenizer(table), chunks),
        bare,
        len(ids),
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

        times = [(cpu(lambda: run(many)), cpu(lambda: run(few))) for _ in range(4)][1:]  # noqa: B023
        mine, theirs = (
            median(a for a, _ in times) / 16_000 * 1e6,
            median(b for _, b in times) / 2_000 * 1e6,
        )
        row = {
            "bench": "chat",
            "case": "16,000 pushes of " + name,
            "ours": round(mine, 3),
            "peer": round(theirs, 3),
        }
        print(
            json.dumps(
                row
                | {
                    "peer_name": "2,000 of them",
                    "unit": "us/push",
                    "ratio": round(mine / theirs, 2),
                }
            )
        )


if __name__ == "__main__":
    main()
