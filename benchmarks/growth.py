"""How cost grows with the work: tokens, streams in one process, vocabulary size, stop strings.

    .venv/bin/python -m benchmarks.growth [--quick]

Prints one JSON object a line: {"bench", "case", "x", "x_name", "ours", "unit"}. Each point is
measured in a process of its own: CPU seconds, and the resident memory that it took in addition.
"""

import argparse
import gc
import json
import os
import random
import time
from collections.abc import Callable
from typing import Any

from detok_py import ByteVocabulary, ChatStream, Detokenizer, Vocabulary

from .rows import report

TEXT = "It is 12 °C in Kraków, 東京 and São Paulo 🦊; nothing else is known. ".encode()
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * PAGE


def apart(work: Callable[[], Any]) -> tuple[float, float]:
    """Run `work` in a process of its own; return CPU seconds and additional megabytes."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            gc.collect()
            before, began = resident(), time.process_time()
            kept = work()
            took, more = time.process_time() - began, resident() - before
            os.write(writing, json.dumps([took, max(more, 0) / 1e6]).encode())
            del kept
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as said:
        told = said.read()
    if os.waitpid(child, 0)[1]:
        raise SystemExit("a measurement failed")
    took, more = json.loads(told)
    return took, more


def both(what: str, x: int, x_name: str, work: Callable[[], Any]) -> None:
    took, more = apart(work)
    report("growth", f"{what}: time", took, "s", x=x, x_name=x_name)
    report("growth", f"{what}: memory", more, "MB", x=x, x_name=x_name)


def pushed(count: int) -> Any:
    stream = Detokenizer(ByteVocabulary())
    push, ids = stream.push, list(TEXT)
    for _ in range(count // len(ids)):
        for i in ids:
            push(i)
    return stream


def together(count: int) -> Any:
    vocabulary = ByteVocabulary()
    streams = [ChatStream(Detokenizer(vocabulary), stop=["\nUser:"]) for _ in range(count)]
    for i in TEXT:
        for stream in streams:
            stream.push(i)
    return streams


def vocabulary_of(size: int) -> Any:
    tokens = [b"%x " % n for n in range(size)]
    vocabulary = Vocabulary.from_bytes(tokens)
    stream = Detokenizer(vocabulary)
    choose = random.Random(size)
    for _ in range(10_000):
        stream.push(choose.randrange(size))
    return vocabulary, stream


def stops_of(size: int) -> Any:
    choose = random.Random(size)
    letters = "abcdefghijklmnop"
    stops = ["".join(choose.choices(letters, k=12)) for _ in range(size)]
    stream = ChatStream(Detokenizer(ByteVocabulary()), stop=stops)
    for i in choose.choices(letters.encode(), k=20_000):
        stream.push(i)
    return stream


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="up to a tenth of the work")
    quick = parser.parse_args().quick
    for power in range(3, 7 if quick else 8):
        both("tokens of one stream", 10**power, "tokens", lambda n=10**power: pushed(n))
    for power in range(4 if quick else 5):
        both("streams in one process", 10**power, "streams", lambda n=10**power: together(n))
    for power in range(3, 6 if quick else 7):
        name = "tokens in the vocabulary"
        both("vocabulary", 10**power, name, lambda n=10**power: vocabulary_of(n))
    for power in range(4 if quick else 5):
        both("stop list", 10**power, "stop strings", lambda n=10**power: stops_of(n))


if __name__ == "__main__":
    main()
