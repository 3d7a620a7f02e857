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


def single_rows(row: list) -> list[list]:
    """Return each row of a list of many texts."""
    seconds, texts, channel, line, event, broken, step = row
    if not isinstance(step, int):
        return [row]
    return [
        [
            seconds,
            [None, text.encode().hex(), [["content", text]], "", "", None],
            channel,
            line + n * step,
            event + n,
            broken,
            [],
        ]
        for n, text in enumerate(texts)
    ]


def rows_of(data: bytes, name: str) -> object:
    page._last[:] = [None, None]
    try:
        found = json.loads(page.capture_rows(fill(data), name))
        while found["more"]:
            part = json.loads(page.more_rows(found["more"]))
            found["rows"] += part["rows"]
            found["more"] = part["more"]
        found["rows"] = [row for each in found["rows"] for row in single_rows(each)]
        return found
    except page.DetokError as error:
        return str(error)


def both(monkeypatch: pytest.MonkeyPatch, data: bytes, name: str) -> tuple[object, object]:
    """Return what is read, and what would be if no event were like another."""
    found = rows_of(data, name)
    with monkeypatch.context() as patch:
        patch.setattr(alike.Shapes, "same", lambda self, line: None)
        patch.setattr(alike.Shapes, "texts", lambda self, lines, n: None)
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
    for _ in range(60 if seed % 2 else 400):
        text = "".join(rng.choices(TEXTS, k=rng.randrange(3)))
        delta = {rng.choice(["content", "content", "content", "reasoning_content"]): text}
        event = {"id": str(rng.random() < 0.1), "choices": [{"index": 0, "delta": delta}]}
        if seed % 2 == 0:  # long runs of texts, in which the clock ticks
            event["id"], delta = "c", {"content": text or "x"}
            event["choices"] = [{"index": 0, "delta": delta}]
            event["created"] = 1763900000 + len(lines) // 60
        if rng.random() < 0.05:
            event["choices"][0]["index"] = 1
        if rng.random() < 0.05:
            event = {"error": {"message": text}}
        if rng.random() < 0.1:
            event["choices"] = [{"index": 0, "delta": {"content": text}, "token_ids": [7]}]
        line = "data: " + json.dumps(event, ensure_ascii=rng.random() < 0.2)
        if rng.random() < 0.05:
            line = line[: rng.randrange(len(line))]
        between = [[""], [], ["", "event: x"], [": ping", ""]]
        lines += [line] + (rng.choice(between) if rng.random() < (1, 0.02)[seed % 2 == 0] else [""])
    data = "\n".join(lines).encode()
    if rng.random() < 0.3:
        data = data.replace("é".encode(), b"\xe9")
    found, expected = both(monkeypatch, data, "mix.sse")
    assert found == expected


def test_most_events_of_a_stream_are_not_parsed() -> None:
    lines = [f'data: {{"choices":[{{"delta":{{"content":"{n}"}}}}]}}\n' for n in range(500)]
    data = "\n".join(lines).encode()
    together, problems = read_log(data, together=True)
    texts = [event.value.texts for event in together if isinstance(event.value, alike.Texts)]
    assert sum(map(len, texts)) > 490 and len(texts) < 10
    events, problems = read_log(data)
    assert problems == []
    assert sum(isinstance(event.value, alike.Same) for event in events) > 490
    assert [event.line for event in events] == list(range(1, 1000, 2))
