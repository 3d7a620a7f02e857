"""Events that are like an earlier one are read as if each were parsed."""

import json
import random
from pathlib import Path

import pytest
from page_rig import fill

from detok_py.captures import alike, page
from detok_py.captures.log import read_log

STREAMS = Path(__file__).resolve().parents[1] / "fixtures" / "streams"
TEXTS = ["a", " né", "你好", "\n", "a\\b", 'a"b', "\ufffd", "", "😀", "\t", "content", ":", "}"]


def rows_of(data: bytes, name: str) -> object:
    page._last[:] = [None, None]
    try:
        return json.loads(page.capture_rows(fill(data), name))
    except page.DetokError as error:
        return str(error)


def both(monkeypatch: pytest.MonkeyPatch, data: bytes, name: str) -> tuple[object, object]:
    """Return what is read, and what would be if no event were like another."""
    found = rows_of(data, name)
    with monkeypatch.context() as patch:
        patch.setattr(alike.Shapes, "same", lambda self, line: None)
        return found, rows_of(data, name)


@pytest.mark.parametrize("file", sorted(STREAMS.iterdir()), ids=lambda path: path.name)
def test_a_file_says_the_same(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    data = file.read_bytes()
    for many in (data, data * 3, data.replace(b"\n\n", b"\n")):
        found, expected = both(monkeypatch, many, file.name)
        assert found == expected


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(40))
def test_any_mix_of_events_says_the_same(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = random.Random(seed)
    lines: list[str] = []
    for _ in range(60):
        text = "".join(rng.choices(TEXTS, k=rng.randrange(3)))
        delta = {rng.choice(["content", "content", "content", "reasoning_content"]): text}
        event = {"id": str(rng.random() < 0.1), "choices": [{"index": 0, "delta": delta}]}
        if rng.random() < 0.05:
            event["choices"][0]["index"] = 1
        if rng.random() < 0.05:
            event = {"error": {"message": text}}
        if rng.random() < 0.1:
            event["choices"] = [{"index": 0, "delta": {"content": text}, "token_ids": [7]}]
        line = "data: " + json.dumps(event, ensure_ascii=rng.random() < 0.2)
        if rng.random() < 0.05:
            line = line[: rng.randrange(len(line))]
        lines += [line] + rng.choice([[""], [], ["", "event: x"], [": ping", ""]])
    data = "\n".join(lines).encode()
    if rng.random() < 0.3:
        data = data.replace("é".encode(), b"\xe9")
    found, expected = both(monkeypatch, data, "mix.sse")
    assert found == expected


def test_most_events_of_a_stream_are_not_parsed() -> None:
    lines = [f'data: {{"choices":[{{"delta":{{"content":"{n}"}}}}]}}\n' for n in range(500)]
    events, problems = read_log("\n".join(lines).encode())
    assert problems == []
    assert sum(isinstance(event.value, alike.Same) for event in events) > 490
    assert [event.line for event in events] == list(range(1, 1000, 2))
