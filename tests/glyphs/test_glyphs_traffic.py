"""The text of a stream is read from every known format, and is None if the format is unknown."""

import json

import pytest

from detok_py.glyphs.traffic import SentText, text_of

TEXT = "Grüße 東京 👋🏽 ภาษาไทย 龜龜 \ufffd ende"
pytestmark = pytest.mark.native


def sse(text: str, size: int = 3) -> bytes:
    parts = [text[i : i + size] for i in range(0, len(text), size)]
    return (
        b"".join(
            [
                b"data: " + json.dumps({"choices": [{"delta": {"content": p}}]}).encode() + b"\n\n"
                for p in parts
            ]
        )
        + b"data: [DONE]\n\n"
    )


@pytest.mark.parametrize(
    "value",
    [
        {"choices": [{"delta": {"content": "hé"}}]},
        {"choices": [{"text": "hé"}]},
        {"choices": [{"message": {"content": "hé"}}]},
        {"message": {"content": "hé"}},
        {"response": "hé", "done": False},
        {"content": "hé", "stop": False},
        {"token": {"id": 1, "text": "hé"}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "hé"}},
        {"type": "text-delta", "id": "1", "delta": "hé"},
        {"type": "response.output_text.delta", "delta": "hé"},
        {"text": "hé"},
    ],
)
def test_the_text_of_every_known_event(value):
    assert text_of(value) == "hé"


@pytest.mark.parametrize(
    "value", [{"usage": {"total": 3}}, {"type": "tool-input-delta", "delta": "{"}, [1], 3, None]
)
def test_an_event_without_text_is_none(value):
    assert text_of(value) is None


def test_the_text_of_a_stream_does_not_depend_on_its_cuts():
    for data, kind in (
        (sse(TEXT), "text/event-stream"),
        (sse(TEXT).replace(b"\n", b"\r\n"), "text/event-stream; charset=utf-8"),
    ):
        for size in (1, 2, 7, len(data)):
            sent = SentText(kind)
            for i in range(0, len(data), size):
                sent.feed(data[i : i + size])
            sent.flush()
            assert sent.text == TEXT


def test_halves_of_a_pair_in_two_events_are_one_character():
    sent = SentText("text/event-stream")
    sent.feed(b'data: {"content": "a\\ud83e"}\n\ndata: {"content": "\\udd8ab"}\n\n')
    sent.flush()
    assert sent.text == "a🦊b"


def test_a_stream_of_unknown_events_has_no_known_text():
    sent = SentText("text/event-stream")
    sent.feed(b'data: {"msg": "process_generating", "output": {}}\n\n')
    sent.flush()
    assert sent.text is None


@pytest.mark.parametrize("word", ["ALIVE", "ping", "keep-alive", "heartbeat"])
def test_a_keep_alive_is_not_text(word):
    sent = SentText("text/event-stream")
    sent.feed(f"data: {word}\n\n".encode() * 3)
    sent.flush()
    assert not sent.text
    sent.feed(b"data: a keep-alive of 15 s\n\n")
    assert sent.text == "a keep-alive of 15 s"


def test_an_unknown_binary_message_has_no_known_text():
    sent = SentText("websocket")
    sent.message("pong")
    assert sent.text == ""
    sent.message(None)
    assert sent.text is None
    sent.message("a")
    assert sent.text == "a"


def test_the_last_line_counts_without_a_line_end():
    sent = SentText("application/x-ndjson")
    sent.feed(b'{"response": "a"}\n{"response": "b"}')
    sent.flush()
    assert sent.text == "ab"
