"""What the benchmarks share: rows as a JSON object a line, and CPU time by turns."""

import argparse
import gc
import json
import lzma
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("DETOK_DATA", ROOT.parent / "shared" / "data"))
TEN = ("en", "de", "fr", "es", "ru", "hi", "zh-hans", "ja", "ko", "ar")


def report(
    bench: str,
    case: str,
    ours: float,
    unit: str,
    peer: float | None = None,
    peer_name: str = "bar",
    **more: Any,
) -> None:
    """Print one row: {"bench", "case", "ours", "peer", "peer_name", "unit", "ratio"}, and
    `more`.
    """
    row = {
        "bench": bench,
        "case": case,
        "ours": rounded(ours),
        "peer": None if peer is None else rounded(peer),
        "peer_name": None if peer is None else peer_name,
        "unit": unit,
        "ratio": None if peer is None else round(ours / max(peer, 1e-9), 3),
    }
    print(json.dumps(row | more, ensure_ascii=False), flush=True)


def report_system(bench: str, case: str, system: str, value: float, unit: str) -> None:
    """Print a row of one of several systems: {"bench", "case", "system", "value", "unit"}."""
    row = {"bench": bench, "case": case, "system": system, "value": rounded(value), "unit": unit}
    print(json.dumps(row, ensure_ascii=False), flush=True)


def rounded(value: float) -> float:
    """Return a value with six significant digits."""
    return float(f"{value:.6g}")


def cpu(call: Callable[[], Any]) -> float:
    """Return the CPU seconds of a call."""
    gc.collect()
    began = time.process_time_ns()
    call()
    return (time.process_time_ns() - began) / 1e9


def by_turns(runs: int, *calls: Callable[[], Any]) -> list[list[float]]:
    """Return the CPU seconds of each call in each run. The calls take turns, so that what else the
    machine does hits all alike.
    """
    turns = [[cpu(call) for call in calls] for _ in range(runs)]
    return [list(times) for times in zip(*turns, strict=True)]


def cheapest(runs: int, *calls: Callable[[], Any]) -> list[float]:
    """Return the least CPU seconds of each call, measured by turns."""
    return [min(times) for times in by_turns(runs, *calls)]


def medians(runs: int, *calls: Callable[[], Any]) -> list[float]:
    """Return the median CPU seconds of each call, measured by turns."""
    return [statistics.median(times) for times in by_turns(runs, *calls)]


def with_section(page: str, title: str, section: str) -> str:
    """Return a page in Markdown in which a section is replaced, or added at the end.

    >>> with_section("# P\\n\\n## A\\n\\n1\\n\\n## B\\n\\n2\\n", "A", "3\\n")
    '# P\\n\\n## A\\n\\n3\\n\\n## B\\n\\n2\\n'
    """
    head, *sections = page.rstrip("\n").split("\n## ")
    new = f"{title}\n\n{section.rstrip()}\n"
    found = [n for n, text in enumerate(sections) if text.partition("\n")[0] == title]
    if found:
        sections[found[0]] = new
    else:
        sections.append(new)
    return "\n## ".join([head, *[text.rstrip("\n") + "\n" for text in sections]])


def options(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the option `--data`, the folder of the large test data."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="the large test data")
    return parser


def recited() -> dict[str, str]:
    """Return the texts of the reciting model, in 36 languages, by their ids; `TEN` are of one
    language each.
    """
    texts = json.loads((ROOT / "detok_py/bridge/recite/texts.json").read_text("utf-8"))
    return {each["id"]: each["text"] for each in texts}


def documents(data: Path, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield names and tokenizer.jsons: `names` of the large test data; where that is missing, small
    ones of the tests, byte-level, SentencePiece and WordPiece.
    """
    if data.is_dir():
        for name in names:
            packed = data / "tokenizers" / name / "tokenizer.json.xz"
            yield name, lzma.decompress(packed.read_bytes()).decode()
        return
    sys.path.insert(0, str(ROOT / "tests"))
    import small_tokenizers as small

    for make in (small.byte_level, small.sentencepiece, small.wordpiece):
        yield f"small {make.__name__}", json.dumps(make())


def unpacked(data: Path, folder: Path, name: str) -> Path:
    """Return a tokenizer's file of the test data, unpacked into `folder` if it is packed there."""
    if not (data / "tokenizers").is_dir():
        raise SystemExit(f"{data} has no tokenizers; name the test data with --data or DETOK_DATA.")
    source = data / "tokenizers" / name
    if source.exists():
        return source
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    with lzma.open(source.with_name(source.name + ".xz")) as packed:
        file.write_bytes(packed.read())
    return file
