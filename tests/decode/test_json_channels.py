"""An answer that is one JSON value: no stop ends inside a string of it."""

import itertools
import json
from typing import Any

import pytest
from laws.oracle import Certain, characters, ids_obey_the_law

from detok_py import ByteVocabulary, ChatStream, Detokenizer, StreamingDetokenizer, Vocabulary
from detok_py.decode.json_channels import JsonChannels

UNITS = ["{", "}", '"', "\\", "a", "\n", ","]
STOPS = [
    ("\n",),
    ("a",),
    ("}\n", "\n\n"),
    ("a\n",),
    ('a"',),
    ('\n"a', "\na"),
    ('"',),
    ("{a", '{"'),
    ('a"a', "\n{"),
]


def stream(**options: Any) -> ChatStream[Any]:
    vocabulary = Vocabulary.from_bytes([unit.encode() for unit in UNITS])
    return ChatStream(Detokenizer(vocabulary), format="json", trim_artifacts=False, **options)


def inside_strings(text: str) -> list[bool] | None:
    """Say of each character whether it stands inside a string of the value, behind its first quote;
    None if the text is no value.
    """
    begun = text.lstrip(" \n")
    if not begun:
        return [False] * len(text)
    if begun[0] not in '{["':
        return None
    inside, quote, depth, done = [], "", 0, False
    for c in text:
        inside.append(bool(quote))
        if quote:
            quote = '"' if quote == "\\" else {"\\": "\\", '"': ""}.get(c, '"')
            done = done or (not quote and not depth)
        elif not done and c == '"':
            quote = c
        elif not done and c in "{}":
            depth += 1 if c == "{" else -1
            done = depth <= 0
    return inside


def cut_at_stop(text: str, stops: tuple[str, ...]) -> str:
    """Return the text up to the stop that is complete first."""
    inside = inside_strings(text)
    for end in range(len(text) + 1):
        for start in range(end):
            word = text[start:end]
            in_string = inside is not None and ('"' in word[:-1] or any(inside[start:end]))
            if word in stops and not in_string:
                return text[:start]
    return text


@pytest.mark.full
@pytest.mark.parametrize("stop", STOPS, ids=repr)
def test_what_is_shown_is_certain_and_no_stop_ends_in_a_string(stop: tuple[str, ...]) -> None:
    def final(given: tuple[int, ...]) -> Any:
        text = "".join([UNITS[i] for i in given])
        return characters([("content", cut_at_stop(text, stop))])

    certain = Certain(final, [(i,) for i in range(len(UNITS))], 3)
    ids_obey_the_law(lambda: stream(stop=stop), certain, range(len(UNITS)), 3)


@pytest.mark.parametrize(
    ("text", "complete_at"),
    [
        ('{"a": [1, "}"]}', 15),
        ('"a\\"b" ', 6),
        (' [[], {"b": "]"}]\n', 17),
        ("-1.5e3", None),
        ("true,", 5),
        ("Hello {}", None),
        ('{"a": 1', None),
    ],
)
def test_it_says_when_the_value_is_complete(text: str, complete_at: int | None) -> None:
    chat = ChatStream(StreamingDetokenizer(), format="json")
    found = None
    for n, c in enumerate(text, 1):
        chat.feed(c.encode())
        if chat.complete and found is None:
            found = n
    assert found == complete_at
    chat.flush()
    assert chat.complete == (text not in ("Hello {}", '{"a": 1'))


@pytest.mark.parametrize("stop", ['"x', '}"x', '1"2'])
def test_nothing_waits_for_a_stop_with_a_quote_inside(stop: str) -> None:
    chat = ChatStream(StreamingDetokenizer(), format="json", stop=[stop])
    for text in ('{"a": 1', "}", '"'):
        assert "".join([x.text for x in chat.feed(text.encode())]) == text


def test_channels_alone_wait_for_no_stop_that_another_one_always_ends_before() -> None:
    channels = JsonChannels(["ab!", "b"])
    assert channels.feed("{} a") == [("content", "{} a")]
    assert (channels.feed("b"), channels.stopped) == ([], "b")


def test_a_number_or_a_word_is_complete_where_json_has_it() -> None:
    words = [
        *map("".join, itertools.product("-01.e+", repeat=5)),
        "true",
        "nul",
        "no",
        "1E5x",
        '1"a"',
    ]
    for text in {word[:end] for word in words for end in range(1, 6)}:
        chat = ChatStream(StreamingDetokenizer(), format="json")
        for c in text.encode():
            chat.feed(bytes([c]))
        chat.flush()
        try:
            json.loads(text)
        except ValueError:
            assert not chat.complete, text
        else:
            assert chat.complete, text


def test_a_copy_goes_on_inside_a_string_and_a_stop_behind_the_value_counts() -> None:
    chat = ChatStream(StreamingDetokenizer(), ["\n\n"], format="json")
    assert chat.feed(b'{"a": "b\n') == [("content", '{"a": "b\n')]
    mark = chat.mark()
    other = chat.copy()
    for each in (chat, other):
        assert each.feed(b'\nc"}\n') == [("content", '\nc"}')]
        assert (each.complete, each.held_text) == (True, "\n")
    chat.rollback(mark)
    assert chat.feed(b'\n\n"}\n\nmore') == [("content", '\n\n"}')]
    assert (chat.stopped, chat.finish_reason, chat.calls) == ("\n\n", "stop", [])
    with pytest.raises(ValueError, match="start must be 'content'"):
        ChatStream(StreamingDetokenizer(), format="json", start="reasoning")


@pytest.mark.parametrize("begin", ["\n", " \n", "\n\n"])
@pytest.mark.parametrize("text", ['{"a":1}', "Hi", "[1]"])
@pytest.mark.parametrize("cut", [False, True])
def test_a_stop_within_the_first_ids_does_not_end_the_answer_when_its_value_begins(
    begin: str, text: str, cut: bool
) -> None:
    ids = list((begin + text).encode())
    chat = ChatStream(
        Detokenizer(ByteVocabulary()),
        format="json",
        stop=["\n\n", "\n"],
        min_tokens=len(begin),
    )
    deltas = [each for i in ids for each in chat.push(i)] if cut else chat.feed(ids)
    deltas += chat.push(10)
    assert "".join([each.text for each in deltas]) == begin + text
    assert chat.stopped == "\n"
