"""A ChatStream finds the format in the vocabulary, and its start in the prompt."""

import json
from typing import Any

import pytest

from detok_py import (
    ChatFormat,
    ChatStream,
    Detokenizer,
    StreamingDetokenizer,
    Vocabulary,
    load_tokenizer,
)
from detok_py.decode.byte_level import ALPHABET
from formats.whole_text import Token, pieces_of

CALL = '{"name": "f", "arguments": {"a": 1}}'
HARMONY = "<|start|>assistant<|channel|>final<|message|>"
QWEN = '<|im_start|><think></think><tool_call>{"name": {{ n }}}</tool_call><|im_end|>'


def spelled(text: str) -> str:
    """Return text in the alphabet of byte-level vocabularies."""
    return "".join([ALPHABET[byte] for byte in text.encode()])


def tokenizer_of(template: str, *notations: str) -> tuple[Any, list[list[int]]]:
    """Return a tokenizer with a chat template, whose tokens are the pieces of some notations, and
    the ids of each of them.
    """
    split = [pieces_of(each) for each in notations]
    known = sorted({(isinstance(piece, Token), str(piece)) for each in split for piece in each})
    vocab = {spelled(text): i for i, (is_token, text) in enumerate(known) if not is_token}
    added = [
        {"id": i, "content": text, "special": True, "normalized": False}
        for i, (is_token, text) in enumerate(known)
        if is_token
    ]
    document = {
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
        "decoder": {"type": "ByteLevel"},
        "added_tokens": added,
    }
    files = {"tokenizer.json": json.dumps(document).encode()}
    files["chat_template.jinja"] = template.encode()
    ids = [[known.index((isinstance(p, Token), str(p))) for p in each] for each in split]
    return load_tokenizer(files), ids


def said(chat: ChatStream[Any], ids: list[int]) -> list[tuple[str, str]]:
    deltas = [delta for i in ids for delta in chat.push(i)] + chat.flush()
    return [(delta.channel, delta.text) for delta in deltas]


def test_the_format_of_the_tokenizer_and_the_start_of_the_prompt_are_found() -> None:
    answer = f"Hm⟦</think>⟧⟦<tool_call>⟧{CALL}⟦</tool_call>⟧⟦<|im_end|>⟧"
    tokenizer, (prompt, plain, ids) = tokenizer_of(
        QWEN, "⟦<|im_start|>⟧assistant\n⟦<think>⟧\n", "⟦<|im_start|>⟧assistant\n", answer
    )
    assert tokenizer.vocabulary.chat_format == tokenizer.chat_format.name == "qwen3_hermes"
    chat = ChatStream(tokenizer.detokenizer(prompt))
    assert said(chat, ids) == [("reasoning", "Hm"), ("tool_call", ""), ("tool_call", '{"a": 1}')]
    assert [(call.name, call.arguments) for call in chat.calls] == [("f", '{"a": 1}')]
    assert chat.finish_reason == chat.copy().finish_reason == "tool_calls"
    # Behind another prompt the same stream begins elsewhere.
    chat.reset(plain)
    assert said(chat, ids)[0] == ("content", "Hm")
    chat.reset(prompt)
    assert chat.copy().push(ids[0])[0].channel == "reasoning"


def test_an_answer_of_harmony_begins_inside_a_header() -> None:
    answer = "⟦<|channel|>⟧analysis⟦<|message|>⟧Hm⟦<|end|>⟧⟦<|start|>⟧assistant"
    answer += "⟦<|channel|>⟧final⟦<|message|>⟧Hi⟦<|return|>⟧"
    tokenizer, (prompt, ids, _) = tokenizer_of(
        HARMONY, "⟦<|start|>⟧assistant", answer, "⟦<|call|>⟧"
    )
    for prompt_ids in (prompt, []):
        chat = ChatStream(tokenizer.detokenizer(prompt_ids))
        assert said(chat, ids) == [("reasoning", "Hm"), ("content", "Hi")]


def test_tags_of_ones_own_and_none_come_before_the_format_that_was_found() -> None:
    tokenizer, (ids,) = tokenizer_of(QWEN, f"⟦<think>⟧a⟦</think>⟧⟦<tool_call>⟧{CALL}")
    plain = ChatStream(tokenizer.detokenizer(), format=None)
    assert said(plain, ids) == [("content", "a"), ("content", CALL)]
    tags = ChatStream(tokenizer.detokenizer(), tools=None)
    assert said(tags, ids) == [("reasoning", "a"), ("content", CALL)]
    assert said(tags.copy(), []) == []


def test_tags_of_ones_own_are_looked_for_in_the_prompt_too() -> None:
    vocabulary = Vocabulary.from_bytes([b"<r>", b"a", b"</r>", b"b"])
    options: dict[str, Any] = {"reasoning": ("<r>", "</r>"), "tools": None}
    for prompt, channel in (((0,), "reasoning"), ((0, 1, 2), "content"), ((), "content")):
        chat = ChatStream(Detokenizer(vocabulary, prompt), **options)
        assert chat.feed([1]) == [(channel, "a")]
    chat = ChatStream(Detokenizer(vocabulary, (0,)), start="content", **options)
    assert chat.feed([1]) == [("content", "a")]


def test_a_packed_vocabulary_keeps_its_format_and_an_unknown_one_is_none() -> None:
    tokenizer, (ids,) = tokenizer_of(QWEN, f"⟦<think>⟧a⟦</think>⟧⟦<tool_call>⟧{CALL}")
    packed = Vocabulary.unpack(tokenizer.vocabulary.pack())
    assert (packed.chat_format, packed.added_ids) == (
        "qwen3_hermes",
        tokenizer.vocabulary.added_ids,
    )
    chat = ChatStream(Detokenizer(packed))
    assert said(chat, ids)[:2] == [("reasoning", "a"), ("tool_call", "")]
    packed.chat_format = "of the future"
    assert said(ChatStream(Detokenizer(packed)), ids)[0] == ("reasoning", "a")


def test_bytes_have_no_vocabulary_so_the_pairs_of_tags_are_looked_for() -> None:
    chat = ChatStream(StreamingDetokenizer())
    assert chat.feed(b"<think>a</think><tool_call>b</tool_call>")[1] == ("tool_call", "b")
    assert chat.calls == ["b"]


@pytest.mark.parametrize("opener", ["<think>", "<|im_start|>user", "</think>"])
def test_a_long_prompt_is_searched_back_to_what_decides(opener: str) -> None:
    notation = f"⟦<|im_start|>⟧a⟦{opener}⟧" + "Hm"
    tokenizer, (first,) = tokenizer_of(QWEN, notation)
    prompt = first + first[-1:] * 200
    chat = ChatStream(tokenizer.detokenizer(prompt))
    assert chat.channel == ("reasoning" if opener == "<think>" else "content")


FIELDS: dict[str, Any] = {
    "thinking": {"open": "<r>", "close": "</r>"},
    "content": {"open": "<c>", "close": "</c>"},
    "tool_calls": {"open": "<call>", "close": "</call>", "content": "json"},
}


def test_a_response_template_is_a_format_of_ones_own() -> None:
    own = ChatFormat.from_template({"start_anchor": "x", "fields": FIELDS})
    assert own == ChatFormat.from_template({"fields": dict(FIELDS)})
    assert hash(own) == hash(ChatFormat.from_template({"fields": dict(FIELDS)}))
    answer = f"Hm</r><c>Hi</c><call>{CALL}</call>"
    vocabulary = Vocabulary.from_bytes([b"<r>", *[c.encode() for c in answer]])
    chat = ChatStream(Detokenizer(vocabulary, [0]), format=own)
    deltas = chat.feed(list(range(1, 8)))
    other = chat.copy()
    other.load(json.loads(json.dumps(chat.save())))
    for each in (chat, other):
        shown = deltas + each.feed(list(range(8, len(answer) + 1))) + each.flush()
        for channel, text in (("reasoning", "Hm"), ("content", "Hi"), ("tool_call", '{"a": 1}')):
            assert "".join([d.text for d in shown if d.channel == channel]) == text
        assert [(call.name, call.complete) for call in each.calls] == [("f", True)]
    chat.reset([0])
    assert chat.channel == "reasoning"


def test_a_response_template_with_the_markup_of_the_table_is_that_format() -> None:
    template = {"fields": {"tool_calls": {"open": "<seed:tool_call>", "close": "x"}}}
    found = ChatFormat.from_template(template)
    assert (found.name, found.spec) == ("seed_oss", ChatFormat.named("seed_oss").spec)
    stream = ChatStream(StreamingDetokenizer(), format=found)
    assert stream.feed(b"<seed:think>a") == [("reasoning", "a")]


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ({}, 'no "fields"'),
        ({"fields": {"role": {"open": "a", "close": "b"}}}, '"role"'),
        ({"fields": {"thinking": {"open_pattern": "a+", "close": "b"}}}, '"thinking"'),
        ({"fields": {"content": {"open_pattern": "a+"}}}, '"content"'),
        ({"fields": {"tool_calls": {"open": "a", "close": "b"}}}, "not plain json"),
        ({"fields": {"thinking": {"open": "\n", "close": "b"}}}, '"thinking".* empty tag'),
        ({"fields": {"content": {"open": "a", "close": "\n"}}}, '"content".* empty tag'),
        ({"fields": {"thinking": {"open": "a", "close": "\nb\n"}}}, '"thinking".* own'),
        (
            {"fields": {"tool_calls": {**FIELDS["tool_calls"], "transform": {"a": "{b}"}}}},
            "not plain json",
        ),
    ],
)
def test_a_response_template_that_cannot_be_read_is_refused(template: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ChatFormat.from_template(template)
    with pytest.raises(TypeError, match="a response template is a dict, not str"):
        ChatFormat.from_template("x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("opener", "close"), [("<r>\n", "</r>"), ("\n<r>", "\n</r>\n\n"), ("<r>", "</r>\n\n\n")]
)
def test_newlines_at_the_ends_of_a_tag_of_ones_own_are_markup(opener: str, close: str) -> None:
    own = ChatFormat.from_template({"fields": {"thinking": {"open": opener, "close": close}}})
    tokens = [bytes([i]) for i in range(256)] + [b"<r>", b"</r>"]
    for special, ids in (([256, 257], {"<r>": [256], "</r>": [257]}), ([], {})):
        chat = ChatStream(Detokenizer(Vocabulary.from_bytes(tokens, special)), format=own)
        deltas = []
        for part in ("<r>", "\nHm\n", "</r>", "\n\nHi"):
            for i in ids.get(part, list(part.encode())):
                deltas += chat.push(i)
        shown = {"reasoning": "", "content": ""}
        for delta in deltas + chat.flush():
            shown[delta.channel] += delta.text
        assert shown == {"reasoning": "Hm", "content": "Hi"}


def test_a_special_token_is_a_marker_of_ones_own_where_the_added_ones_are_not_known() -> None:
    own = ChatFormat.from_template({"fields": {"thinking": FIELDS["thinking"]}})
    vocabulary = Vocabulary.from_bytes([b"<r>", b"</r>", b"Hm", b"Hi", b"<r>"], [0, 1])
    chat = ChatStream(Detokenizer(vocabulary), format=own)
    assert chat.feed([0, 2, 1, 3]) == [("reasoning", "Hm"), ("content", "Hi")]


def test_a_tag_of_ones_own_may_have_several_special_tokens() -> None:
    fields = {
        "thinking": {"open": "<|c|>a<|m|>", "close": "<|e|>"},
        "content": {"open": "<|c|>b<|m|>", "close": "<|e|>"},
        "tool_calls": {"open": "<|c|>[C]", "close": "<|e|>", "content": "json"},
    }
    own = ChatFormat.from_template({"fields": fields})
    tokens = [b"<|c|>", b"<|m|>", b"<|e|>", b"[C]", b"a", b"b", b"Hm", CALL.encode()]
    vocabulary = Vocabulary.from_bytes(tokens, [0, 1, 2, 3])
    chat = ChatStream(Detokenizer(vocabulary), format=own)
    shown = [chat.push(i) for i in (0, 4, 1, 6, 2, 0, 5, 1, 6, 2, 0, 3, 7, 2)]
    assert shown[3:10:5] == [[("reasoning", "Hm")], [("content", "Hm")]]
    assert [len(each) for each in shown] == [0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0]
    assert [(call.name, call.complete) for call in chat.calls] == [("f", True)]
    chat.reset()
    assert chat.feed([0, 4, 6]) == [("content", "aHm")]


def test_another_thread_does_not_see_a_part_of_the_markers() -> None:
    vocabulary = Vocabulary.from_bytes([b"<think>", b"a", b"</think>", b"b"], [0, 2])
    stored, seen = vocabulary._source, []

    def meanwhile(token_id: int) -> bytes | None:
        vocabulary._source = stored  # what follows runs once, as in another thread
        seen.append(ChatStream(Detokenizer(vocabulary), format="qwen3_hermes").feed([0, 1, 2, 3]))
        return stored(token_id)

    vocabulary._source = meanwhile
    seen.append(ChatStream(Detokenizer(vocabulary), format="qwen3_hermes").feed([0, 1, 2, 3]))
    assert seen == [[("reasoning", "a"), ("content", "b")]] * 2
