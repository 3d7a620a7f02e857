# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""The public names as a type checker sees them; `tests/test_types.py` has it checked, not run.

Each call in `wrong` must be refused: both checkers report an ignore comment that they do not need.
"""

import json
from array import array
from collections.abc import Generator, Sequence
from io import BytesIO
from typing import BinaryIO, assert_type

import detok_py as d
from detok_py.decode.channels import Channels
from detok_py.integrations.openai import ChatDeltas, TextStage
from detok_py.integrations.tokenizers import DecodeStream
from detok_py.integrations.transformers import TextIteratorStreamer


def load(path: str, data: bytes, file: BinaryIO) -> d.Tokenizer:
    d.load_tokenizer(data, "gpt2")
    d.load_tokenizer(file)
    d.load_tokenizer({"tokenizer.json": data})
    return assert_type(d.load_tokenizer(path), d.Tokenizer)


def decode(tokenizer: d.Tokenizer, ids: Sequence[int]) -> str:
    vocabulary = assert_type(tokenizer.vocabulary, d.Vocabulary)
    assert_type(vocabulary[0], bytes)
    assert_type(0 in vocabulary, bool)
    assert_type(list(vocabulary), list[int])
    assert_type(tokenizer.bos_id, int | None)
    assert_type(tokenizer.token_to_id("a"), int | None)
    assert_type(tokenizer.id_to_token(0), str | None)
    assert_type(tokenizer.eos_sources, dict[int, str])
    stream = assert_type(tokenizer.detokenizer(errors="strict", spans=True), d.Detokenizer)
    return assert_type(stream.feed(ids), str) + stream.flush()


class Letters:
    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode()


def chat(tokenizer: d.Tokenizer) -> list[d.Delta]:
    answer = d.ChatStream(tokenizer.detokenizer(), stop=["STOP"], stop_ids=[1, [2, 3]])
    data = d.ChatStream(d.StreamingDetokenizer(), "STOP", start="reasoning")
    for chunk in (b"bytes", bytearray(b"more"), memoryview(b"bytes")):
        data.feed(chunk)
    d.ChatStream(TextStage(), stop_scope="everywhere").feed("text")
    d.ChatStream(d.IncrementalDetokenizer(Letters(), [65]))
    assert_type(answer.stopped, str | tuple[int, ...] | None)
    assert_type(answer.copy().feed((1, 2)), list[d.Delta])
    plain: d.ChatStream = data if answer.stopped else answer
    plain.feed([1])
    plain.feed(b"a")
    for delta in answer.feed([1, 2]):
        assert_type(delta.channel, str)
        assert_type(delta.text, str)
    return assert_type(answer.push(5), list[d.Delta])


def states(tokenizer: d.Tokenizer) -> None:
    t = tokenizer.detokenizer()
    assert_type(t.rollback(t.mark()), int)
    t.load(t.save())
    t.load(json.loads(json.dumps(t.save())))
    chat = d.ChatStream(t.copy())
    assert_type(chat.rollback(chat.mark()), dict[str, int])
    chat.load(chat.save())
    stream = d.IncrementalDetokenizer(tokenizer)
    assert_type(stream.rollback(stream.mark()), int)
    for stage in (t, chat, stream, d.StopStrings("STOP"), d.StreamingDetokenizer()):
        assert_type(stage.held_text, str)
        assert_type(stage.held_bytes, bytes)


def texts(tokenizer: d.Tokenizer, ids: list[int], file: BinaryIO) -> None:
    for text in tokenizer.stream(ids, errors="strict"):
        assert_type(text, str)
    assert_type(d.open(file).readline(), str)
    for delta in ChatDeltas([{"choices": []}], stop=["END"], reasoning="all"):
        assert_type(delta, d.Delta)
    ChatDeltas([], start="auto", format="harmony", tool_schemas=[{"name": "f"}])
    decoder = DecodeStream(ids)
    assert_type(decoder.step(tokenizer, 5), str | None)
    for word in TextIteratorStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True):
        assert_type(word, str)


def chunks(
    t: d.Detokenizer, ids: set[int], some: range, later: Generator[int], found: dict[int, str]
) -> None:
    """Ids come in anything that has them, but in bytes."""
    for chunk in (ids, some, later, found.keys(), reversed([1]), array("i", [1])):
        t.feed(chunk)
        d.ChatStream(t).feed(chunk)


def wrong(tokenizer: d.Tokenizer) -> None:
    d.Detokenizer(tokenizer)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    d.ChatStream(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    d.ChatStream(tokenizer)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    d.load_tokenizer(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    d.IncrementalDetokenizer(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    d.StopStrings(b"x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ChatDeltas([], tags=())  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    d.StreamingDetokenizer("bogus")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    tokenizer.detokenizer(errors="bogus")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    tokenizer.decode([1], unknown="drop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    d.IncrementalDetokenizer(tokenizer, byte_fallback="llama")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    d.ChatStream(tokenizer.detokenizer(), start="thinking")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    d.ChatStream(tokenizer.detokenizer(), stop_scope="bogus")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    d.strip_thinking("", start="thinking")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Channels(start="thinking")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ChatDeltas([], stop_scope="bogus")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    d.open(BytesIO(), "bogus")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ids = d.ChatStream(tokenizer.detokenizer())
    ids.feed(b"bytes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ids.feed("text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ids.feed(["text"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    data = d.ChatStream(d.StreamingDetokenizer())
    data.feed("text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    data.feed([1])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    d.StreamingDetokenizer().feed("text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    d.IncrementalDetokenizer(tokenizer).feed(b"bytes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    t = tokenizer.detokenizer()
    t.feed(b"bytes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    t.push(1.0)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    t.rollback(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    t.push("a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
