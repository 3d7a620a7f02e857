"""Events that are like an earlier one are read as if each were parsed."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from recordings import judged
from server_vectors import VECTORS
from stream_samples import STREAMS

from detok_py.captures import alike, event_shapes, page
from detok_py.captures.log import read_log
from detok_py.captures.servers import Server
from detok_py.captures.times import KEYS, stamp_of

TEXTS = ["a", " né", "你好", "\n", "a\\b", 'a"b', "\ufffd", "", "😀", "\t", "content", ":", "}"]


def single_rows(row: list) -> list[list]:
    """Return each row of a list of many texts."""
    seconds, texts, channel, line, event, broken, step = row
    if not isinstance(step, int):
        return [row]
    return [
        [seconds, [None, text.encode().hex(), [["content", text]], "", "", None], channel]
        + [line + n * step, event + n, broken, []]
        for n, text in enumerate(texts)
    ]


def rows_of(data: bytes, name: str) -> object:
    page._last[:] = [None, None]
    try:
        found = judged(data, name)
        while found["more"]:
            part = json.loads(page.more_rows(found["more"]))
            found["rows"] += part["rows"]
            found["more"] = part["more"]
        found["rows"] = [row for each in found["rows"] for row in single_rows(each)]
        return found
    except page.DetokError as error:
        return str(error)


def check_that_it_says_the_same(monkeypatch: pytest.MonkeyPatch, data: bytes, name: str) -> None:
    """Read a file as it is read, and as it would be if no event were like another."""
    found = rows_of(data, name)
    with monkeypatch.context() as patch:
        patch.setattr(alike.Shapes, "same", lambda self, line: None)
        patch.setattr(alike.Shapes, "texts", lambda self, lines, n: None)
        expected = rows_of(data, name)
    with monkeypatch.context() as patch:  # as in MicroPython
        patch.setattr(alike, "FINDS", False)
        assert rows_of(data, name) == expected
    assert found == expected


@pytest.mark.parametrize("file", sorted(STREAMS.iterdir()), ids=lambda path: path.name)
def test_a_file_says_the_same(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    data = file.read_bytes()
    for many in (data, data * 3, data.replace(b"\n\n", b"\n")):
        check_that_it_says_the_same(monkeypatch, many, file.name)


# Values that may differ from event to event; a reader looks at some of them.
FIELDS = {
    "id": lambda n, rng: rng.choice([f"c{n}", n, "c", ""]),
    "obfuscation": lambda n, rng: "x" * rng.randrange(9) + rng.choice(["", "", "", "é", '"', "\\"]),
    "created": lambda n, rng: 1763900000 + n // 60,
    "sequence_number": lambda n, rng: n + (rng.random() < 0.01),
    "extra": lambda n, rng: {"id": n, "score": rng.random(), "all": [n, n % 2 == 0, None, -n]},
    "usage": lambda n, rng: {"completion_tokens": n % 3},
    "model": lambda n, rng: f"m{n % 90 // 88}",
    "created_at": lambda n, rng: f"2026-11-25T12:00:00.{n:06}Z",
    "role": lambda n, rng: "content",
}


def event_of(rng: random.Random, n: int, fields: list[str], form: int, text: str) -> dict:
    """Return an event with these fields beside its text."""
    its = {name: FIELDS[name](n, rng) for name in fields}
    if form == 0:
        return {**its, "choices": [{"index": 0, "delta": {"content": text}, "id": n % 2}]}
    if form == 1:
        return {"type": "response.output_text.delta", **its, "delta": text}
    if form == 2:
        return {**its, "message": {"content": text, "id": str(n)}, "done": False}
    return {**its, "foo": {"text": text}}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(80))
def test_events_that_differ_in_many_values_say_the_same(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    fields = rng.sample(list(FIELDS), rng.randrange(1, 5))
    form = rng.choice([0, 0, 0, 1, 1, 2, 3])
    between = rng.choice([[""], [], ["", "event: x"], ["", "event: x", "id: 5"], [": ping", ""]])
    lines: list[str] = []
    for n in range(rng.choice([5, 60, 400])):
        text = "".join(rng.choices(TEXTS[:6] if seed % 3 else TEXTS, k=rng.randrange(3)))
        event = event_of(rng, n, fields, form, text or "wörd ")
        if rng.random() < 0.02:
            event = rng.choice([{"error": {"message": text}}, {"text": text}, {"other": n}])
        if rng.random() < 0.02:
            event["choices"] = [{"index": 0, "delta": {"content": text}, "token_ids": [n]}]
        line = "data: " + json.dumps(event, ensure_ascii=rng.random() < 0.1)
        lines += [line] + (between if rng.random() > 0.01 else [": ping", ""])
    data = "\n".join(lines).encode()
    if rng.random() < 0.2:
        data = data.replace("é".encode(), b"\xe9")
    check_that_it_says_the_same(monkeypatch, data, "many.sse")


def changed(value: Any, key: str = "", depth: int = 0) -> Iterator[Any]:
    """Yield a JSON value with another string or number at each place that no reader looks at."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from ({**value, name: new} for new in changed(inner, name, depth + 1))
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            others = changed(inner, key, depth + 1)
            yield from ([*value[:n], new, *value[n + 1 :]] for new in others)
    elif not event_shapes.is_read(key.encode(), depth == 1):
        if isinstance(value, str):
            yield from ["", "length", "7"]
        elif type(value) in (int, float):
            yield from [0, 1, 2**40, -1, 0.5]


def test_a_value_that_no_reader_looks_at_changes_nothing() -> None:
    count = 0
    for vector in VECTORS:
        for event in vector["body"] if vector["kind"] in ("events", "lines") else []:
            said = event_shapes.read_event(event, 0, "") if isinstance(event, dict) else None
            if said is None or said.calls:  # calls have an `id`, and are never read as text
                continue
            for other in changed(event):
                assert event_shapes.read_event(other, 0, "") == said
                one, two = Server(), Server()
                assert one.read(event) == two.read(other)
                assert (one.name, one.model) == (two.name, two.model)
                assert all(stamp_of(event, key) == stamp_of(other, key) for key in KEYS)
                count += 1
    assert count > 500


SHAPES = (
    '{{"choices":[{{"delta":{{"content":"{n}"}}}}]}}',
    '{{"id":{n},"choices":[{{"delta":{{"content":"w"}}}}],"obfuscation":"{n}"}}',
    '{{"type":"response.output_text.delta","delta":"a","sequence_number":{n}}}',
)


@pytest.mark.parametrize("shape", SHAPES)
def test_most_events_of_a_stream_are_not_parsed(shape: str) -> None:
    lines = [f"data: {shape.format(n=n)}\n" for n in range(500)]
    data = "\n".join(lines).encode()
    together, problems = read_log(data, together=True)
    texts = [event.value.texts for event in together if isinstance(event.value, alike.Texts)]
    assert sum(map(len, texts)) > 490 and len(texts) < 10
    events, problems = read_log(data)
    assert problems == []
    assert sum(isinstance(event.value, alike.Same) for event in events) > 490
    assert [event.line for event in events] == list(range(1, 1000, 2))
