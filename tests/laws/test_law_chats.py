"""The law for a whole ChatStream over ids, by brute force: decoder rules, stop strings, stop
sequences, tags and half characters together; and that no stream sees another one.
"""

import functools
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detok_py import ChatStream, Detokenizer, StreamingDetokenizer, Vocabulary
from detok_py.decode import text_stages, word_search
from laws.oracle import Certain, characters, final_deltas, final_text, ids_obey_the_law
from laws.reference import decode

pytestmark = pytest.mark.slow

# Behind the first half of 😀, U+FFFD and two characters can come. No sequence has the last piece,
# so that half a character can always be completed.
PIECES = [b"a", b"\n", b"\xf0\x9f", b"\x98\x80", b"U", b"\x98\x81"]
BYTES = Vocabulary.from_bytes(PIECES)
WORDS = ["a", "\n", "\nU", "a\n", "\n\n", "aU", "\n😀", "\ufffd", "a\ufffd", "Ua"]


def answers(stop: tuple[str, ...], stop_ids: list[tuple[int, ...]]) -> Callable[..., Any]:
    """Return the function from the ids of a whole answer to what is shown of it: up to the first
    stop, a string or a sequence, that is complete; of both with one token the sequence.
    """

    @functools.cache
    def shown(text: str) -> Any:
        return characters([("content", final_text(text, stop))])

    @functools.cache
    def ended(ids: tuple[int, ...], whole: bool) -> Any:
        """Return what is shown if one of these ids ends the answer, else None."""
        before = ended(ids[:-1], False) if ids else None
        if before is not None:
            return before
        for sequence in sorted(stop_ids, key=len, reverse=True):
            if ids[-len(sequence) :] == sequence:
                return shown(text_of(ids[: -len(sequence)], True))
        text = text_of(ids, whole)
        return shown(text) if any(each in text for each in stop) else None

    def final(ids: tuple[int, ...]) -> Any:
        found = ended(ids, True)
        return shown(text_of(ids, True)) if found is None else found

    return final


@functools.cache
def text_of(ids: tuple[int, ...], whole: bool) -> str:
    """Return the text of ids: all of it, or what no further id can change."""
    stream = StreamingDetokenizer()
    text = stream.feed(b"".join([PIECES[i] for i in ids]))
    return text + (stream.flush() if whole else "")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(12))
def test_stops_sequences_and_half_characters_show_what_is_certain(seed: int) -> None:
    choose = random.Random(seed)
    options: dict[str, Any] = {
        "stop": tuple(choose.sample(WORDS, choose.randint(0, 2))),
        "trim_artifacts": (),
        "stop_ids": [
            tuple(choose.choices(range(5), k=choose.randint(1, 3)))
            for _ in range(choose.randint(0, 2))
        ],
    }

    def make() -> ChatStream:
        return ChatStream(Detokenizer(BYTES), reasoning=None, tools=None, **options)

    units = [(i,) for i in range(len(PIECES))]
    certain = Certain(answers(options["stop"], options["stop_ids"]), units, 3)
    ids_obey_the_law(make, certain, range(len(PIECES)), 3)


# Every character that the clean-up names is spelled by a token, so that brute force finds nothing
# certain that isn't.
SPACES = ["a", " ", "'", "s", ".", "<0xF0>", "<0x9F>", "\n"]
FALLBACK = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stop", [(), ("a ",), (" .",), ("\n.", " \n")])
def test_a_clean_up_in_front_of_stops_shows_what_is_certain(stop: tuple[str, ...]) -> None:
    vocabulary = Vocabulary.from_pieces(SPACES, FALLBACK)

    def final(ids: tuple[int, ...]) -> Any:
        text = decode(FALLBACK, [SPACES[i] for i in ids], "utf8", True)
        return final_deltas(text, stops=stop)

    def make() -> ChatStream:
        stream = Detokenizer(vocabulary, clean_up_tokenization_spaces=True)
        return ChatStream(stream, stop, reasoning=None, tools=None, trim_artifacts=False)

    certain = Certain(final, [(i,) for i in range(len(SPACES))], 3)
    ids_obey_the_law(make, certain, range(len(SPACES)), 2)


SMALL = [
    *(b"a", b"b", b"[CALL]", b"<think>", b"</think>", b"<tool_call>", b"</tool_call>"),
    *(b"ST", b"OP"),
]
SMALL += [b"\xf0\x9f", b"\x98\x80", b" Sure", b"<eos>"]
SPECIAL = (2, 3, 4, 5, 6, 12)
CHATS: list[dict[str, Any]] = [
    {},
    {"reasoning": None, "tools": ("[CALL]", None)},
    {"reasoning": ("<think>", "</think>", "all"), "tools": [("[CALL]", None)]},
    {"reasoning": None, "tools": None, "stop": ["STOP"]},
    {"tools": [("[CALL]", None), ("<tool_call>", "</tool_call>")], "stop": ["STOP", "aa"]},
    {"stop": ["STOP"], "stop_scope": "everywhere", "include_stop": True},
    {"stop": ["STOP"], "stop_scope": "everywhere"},
    {"stop_ids": [[7, 8], [0, 1, 0]], "start": "reasoning"},
    {"stop": ["bST"], "min_tokens": 3, "max_tokens": 6, "trim_artifacts": ["a"]},
    {"trim_artifacts": "<eos>", "eos_ids": None, "start": "tool_call"},
]
TOKENS = st.integers(0, len(SMALL) - 1)
CHUNKS = st.lists(st.one_of(TOKENS.map(lambda i: [i]), st.lists(TOKENS, max_size=3)), max_size=8)


def answer_of(vocabulary: Vocabulary, stream: Any) -> Any:
    options, skip, chunks = stream
    chat = ChatStream(Detokenizer(vocabulary, skip_special_tokens=skip), **options)
    out = [
        list(map(tuple, chat.push(chunk[0]) if len(chunk) == 1 else chat.feed(chunk)))
        for chunk in chunks
    ]
    return out, list(map(tuple, chat.flush())), chat.calls, chat.finish_reason, chat.tokens


def forget_everything() -> Vocabulary:
    """Return a vocabulary that no stream has used, in a process that remembers no stream."""
    word_search._shared.clear()
    text_stages._machines.clear()
    return Vocabulary.from_bytes(SMALL, special_ids=SPECIAL, eos_ids=[12])


@pytest.mark.sampled(3)
@pytest.mark.native  # as it looks into modules, whose private names the wheel for browsers shortens
@pytest.mark.parametrize("options", CHATS)
@given(data=st.data())
def test_a_stream_is_the_same_whatever_other_streams_came_before_it(
    options: dict[str, Any], data: st.DataObject
) -> None:
    skip, other = data.draw(st.booleans()), data.draw(st.sampled_from(CHATS))
    streams = [(each, skip, data.draw(CHUNKS)) for each in (options, options, options, other)]
    alone = [answer_of(forget_everything(), stream) for stream in streams]
    shared = forget_everything()
    assert [answer_of(shared, stream) for stream in streams] == alone
    assert [answer_of(shared, stream) for stream in reversed(streams)] == alone[::-1]


@pytest.mark.native
def test_an_open_call_of_one_stream_is_no_call_of_the_next() -> None:
    vocabulary = forget_everything()
    options: dict[str, Any] = {"reasoning": None, "tools": ("[CALL]", None)}

    def answer(*ids: int) -> Any:
        chat = ChatStream(Detokenizer(vocabulary), **options)
        return [tuple(delta) for i in ids for delta in chat.push(i)], chat.open_call

    assert answer(2, 11, 0) == ([("tool_call", " Sure"), ("tool_call", "a")], " Surea")
    assert answer(11, 0) == ([("content", " Sure"), ("content", "a")], None)
    assert answer(2, 11, 0) == ([("tool_call", " Sure"), ("tool_call", "a")], " Surea")


@pytest.mark.native
@given(st.lists(st.sampled_from(["a", "b", "ST", "OP", "[CALL]", " Sure"]), max_size=8))
def test_text_streams_do_not_see_each_other_either(texts: list[str]) -> None:
    def answer(options: dict[str, Any]) -> Any:
        chat = ChatStream(StreamingDetokenizer(), **options)
        out = [list(map(tuple, chat.feed(text.encode()))) for text in texts]
        return out, list(map(tuple, chat.flush())), chat.calls

    options = [each for each in CHATS if not {"stop_ids", "min_tokens", "eos_ids"} & set(each)]
    alone = []
    for each in options:
        forget_everything()
        alone.append(answer(each))
    assert [answer(each) for each in options] == alone
