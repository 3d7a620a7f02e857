"""Fuzz the readers of tokenizer files: damage good files at random, for a given time, and keep
those that cause faults.

    .venv/bin/python tools/fuzz_tokenizer_files.py --minutes 60 --finds .build/fuzz

A find is an exception that isn't a DetokError, a second of CPU, or memory of more than four times
the file (and 2 MB that any file may take). Each is written to the folder of finds: the file, and
what happened. The seed of a run is printed, so that it can be run again.
"""

import argparse
import copy
import json
import random
import sys
import time
import traceback
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

sys.path[:0] = [
    str(Path(__file__).resolve().parents[1]),
    str(Path(__file__).resolve().parents[1] / "tests"),
]

import small_tokenizers as small  # noqa: E402
from test_hostile_files import READERS, SMALL, survives  # noqa: E402

SECONDS = 1.0
MEMORY = 4
SLACK = 2_000_000
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**32, 2**63, -(2**63), 1.5, 1e308, -1e-320, "", "a", "▁", "Ġ", "##", "<0x41>", "\ud800",
    "\udc00x", "x" * 5000, [], {}, [[]], [{}],
    {"type": "Sequence"}, {"type": "Sequence", "normalizers": [], "pretokenizers": [], "processors": [], "decoders": []},
    {"type": "ByteLevel"}, {"type": "Fuse"},
    {"type": "ByteFallback"}, {"type": "Metaspace"}, {"type": "Metaspace", "replacement": "ab"}, {"type": "Metaspace", "replacement": "_",
    "prepend_scheme": "x"},
    {"type": "Strip", "content": " ", "start": 2**40, "stop": -1}, {"type": "Replace", "pattern": {"Regex": "("}, "content": "x"},
    {"type": "Replace", "pattern": {"Regex": "(a|a)*b"}, "content": "x"}, {"type": "Replace", "pattern": {"String": ""}, "content": "x"},
    {"type": "Split", "pattern": {"Regex": r"\p{L}+|\s"}, "behavior": "Isolated", "invert": False}, {"type": "Split",
    "pattern": {"String": ""}, "behavior": "Removed"},
    {"type": "Split", "pattern": {"Regex": ""}, "behavior": "MergedWithNext", "invert": True}, {"type": "BPEDecoder", "suffix": ""},
    {"type": "CTC", "pad_token": ""},
    {"type": "WordPiece", "prefix": "", "cleanup": True}, {"type": "Precompiled", "precompiled_charsmap": "AAAA"}, {"type": "Precompiled",
    "precompiled_charsmap": "%"},
    {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B"}}], "pair": [], "special_tokens": {}}, {"type": "BertProcessing",
    "sep": ["a", -1], "cls": []},
    {"type": "Prepend", "prepend": ""}, {"type": "NFKC"}, {"type": "BertNormalizer", "lowercase": 3}, {"type": "UnicodeScripts"},
    {"type": "CharDelimiterSplit", "delimiter": ""},
    {"type": "FixedLength", "length": 0}, {"type": "Digits", "individual_digits": "x"}, {"type": "Punctuation", "behavior": "Contiguous"},
    {"type": "Whitespace"},
]  # fmt: skip
DOCUMENTS = [make() for make in small.FAMILIES.values()] + [small.tekken()]
LIKELY = [
    b"[" * 70,
    b"{",
    b"}",
    b"]",
    b'"',
    b"\\",
    b"null",
    b"NaN",
    b"1e400",
    b"-",
    b"\\ud800",
    b"\xff",
    b"\x00" * 8,
    b"\xff" * 8,
    b"\x00\x00\x00\x80",
    b"GGUF",
    b"== 1\n",
    b"-1",
]


def damaged_document(rng: random.Random) -> tuple[str, bytes]:
    """Return a JSON tokenizer in which a few values were replaced, taken out, doubled or moved."""
    document = copy.deepcopy(rng.choice(DOCUMENTS))
    kind = "tekken" if "config" in document else "json"
    if kind == "json" and rng.random() < 0.7 and isinstance(document["model"]["vocab"], dict):
        keep = rng.sample(sorted(document["model"]["vocab"]), 12)
        document["model"]["vocab"] = {piece: i for i, piece in enumerate(keep)}
        document["model"]["merges"] = [[a, b] for a in keep for b in keep if a + b in keep]
    for _ in range(rng.randint(1, 3)):
        parent: Any = document
        while True:
            keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
            if not keys:
                break
            key = rng.choice(keys[:8] + rng.sample(keys, min(4, len(keys))))
            inner = parent[key]
            if isinstance(inner, (dict, list)) and inner and rng.random() < 0.75:
                parent = inner
                continue
            action = rng.random()
            if action < 0.6:
                parent[key] = copy.deepcopy(rng.choice(VALUES))
            elif action < 0.75:
                del parent[key]
            elif isinstance(parent, dict):
                parent[str(rng.choice(VALUES))[:40]] = inner
            else:
                parent.append(inner)
            break
    return kind, json.dumps(document, ensure_ascii=rng.random() < 0.5).encode(
        "utf-8", "surrogatepass"
    )


def damaged_bytes(rng: random.Random) -> tuple[str, bytes]:
    """Return a small file in which a few bytes were changed, taken out, doubled or put in."""
    kind, data = rng.choice(list(SMALL.values()))
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at, length = rng.randrange(len(out) + 1), rng.choice([0, 1, 1, 4, 8, 30])
        fill = rng.choice(
            [rng.randbytes(rng.randint(0, 8)), rng.choice(LIKELY), bytes(out[at : at + length]) * 2]
        )
        out[at : at + length] = fill
    return kind, bytes(out)


def main() -> int:
    """Fuzz, and print what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--finds", type=Path, default=Path(".build/fuzz"))
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    rng = random.Random(args.seed)
    end = time.monotonic() + 60 * args.minutes
    cases = loaded = finds = 0
    kinds: Counter[str] = Counter()
    while time.monotonic() < end:
        kind, data = rng.choice([damaged_document, damaged_bytes])(rng)
        cases += 1
        weighed = cases % 20 == 0
        if weighed:
            tracemalloc.start()
        began = time.process_time()
        wrong = ""
        try:
            loaded += survives(READERS[kind], data)
        except Exception:
            wrong = traceback.format_exc()
        took = time.process_time() - began
        if weighed:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            if peak > MEMORY * len(data) + SLACK:
                wrong = wrong or f"{peak} bytes of memory for a file of {len(data)}"
        elif took > SECONDS:
            wrong = wrong or f"{took:.2f} s of CPU for a file of {len(data)} bytes"
        if wrong:
            finds += 1
            kinds[wrong.strip().splitlines()[-1][:60]] += 1
            if kinds[wrong.strip().splitlines()[-1][:60]] > 3:
                continue  # seen often enough
            args.finds.mkdir(parents=True, exist_ok=True)
            (args.finds / f"{args.seed}-{cases}.{kind}").write_bytes(data)
            (args.finds / f"{args.seed}-{cases}.txt").write_text(wrong)
            print(wrong.strip().splitlines()[-1], flush=True)
        if cases % 20000 == 0:
            print(f"{cases} files, {loaded} loaded, {finds} finds", flush=True)
    print(f"{cases} files, {loaded} loaded, {finds} finds")
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
