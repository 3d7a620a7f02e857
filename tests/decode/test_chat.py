"""ChatStream: ids or bytes in, deltas out; ends of text, limits, tags that are special tokens."""

import copy
import itertools
import json
import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest
from laws.oracle import characters

from detok_py.decode.artifacts import ArtifactSearch
from detok_py.decode.chat import ChatStream
from detok_py.decode.detokenizer import Detokenizer
from detok_py.decode.stage import Delta
from detok_py.decode.thinking import strip_thinking
from detok_py.decode.utf8 import StreamingDetokenizer
from detok_py.decode.vocabulary import ByteVocabulary, Vocabulary
from detok_py.errors import StreamEndedError, VocabularyError
from detok_py.formats.chat_format import ChatFormat

TOKENS = [
    *(b"Hello", b"\n", b" world", b"\xf0\x9f", b"\x98\x80", b"ST", b"OP", b"<eos>", b"<think>"),
    *(b"</think>", b"<tool_call>", b"</tool_call>", b"!", b"</s"),
]
HELLO, LINE, WORLD, HALF, REST, ST, OP, EOS, THINK, UNTHINK, CALL, UNCALL, BANG, SLASH = range(14)
SMALL = Vocabulary.from_bytes(
    TOKENS, special_ids=[EOS, THINK, UNTHINK, CALL, UNCALL], eos_ids=[EOS]
)


def chat(**options: object) -> ChatStream:
    return ChatStream(Detokenizer(SMALL), **options)  # type: ignore[arg-type]


def pushed(c: ChatStream, *ids: int) -> list[list[tuple[str, str]]]:
    return [[tuple(delta) for delta in c.push(i)] for i in ids] + [
        [tuple(delta) for delta in c.flush()]
    ]


def test_a_stop_that_is_complete_only_at_the_end_of_the_bytes() -> None:
    c = ChatStream(StreamingDetokenizer(), stop=["\ufffd"])
    assert [c.feed(b"a"), c.feed(b"\xe4"), c.feed(b"\xb8"), c.flush()] == [
        [("content", "a")],
        [],
        [],
        [],
    ]
    assert (c.finish_reason, c.stopped) == ("stop", "\ufffd")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stop": ["STOP", "\n!"]},
        {"stop": ["STOP"], "include_stop": True},
        {"stop_ids": [[LINE, BANG], [HALF, HALF]]},
        {"stop_ids": [[LINE, BANG]], "include_stop": True, "stop_scope": "everywhere"},
        {"max_tokens": 3, "stop_ids": [[LINE, BANG]]},
        {"max_tokens": 2, "stop": ["STOP"], "trim_artifacts": ["!", "ST"]},
        {"min_tokens": 2, "max_tokens": 3, "stop": ["\ufffd"]},
        {"tools": ("</s", None), "max_tokens": 3},
    ],
)
def test_nothing_is_held_once_the_answer_has_ended(options: dict[str, Any]) -> None:
    """What ended it made all text certain, so no later call gives any; and it is the text that the
    same ids give in one chunk.
    """
    ended = 0
    for ids in itertools.product([LINE, HALF, EOS, ST, OP, SLASH, THINK, BANG], repeat=3):
        c = chat(**options)
        out: list[Delta] = []
        for i in ids:
            out += c.push(i)
            if c.finish_reason is not None:
                break
        else:
            continue
        ended += 1
        assert (c.held_text, c.held_bytes, c.push(WORLD), c.open_call) == ("", b"", [], None)
        whole = chat(**options)
        at_once = whole.feed([*ids, WORLD])
        assert (whole.finish_reason, whole.calls) == (c.finish_reason, c.calls)
        assert c.flush() == whole.flush() == []
        assert characters(out) == characters(at_once), ids
    assert ended > 100


def test_an_end_of_text_behind_half_a_character_is_refused_where_errors_are() -> None:
    c = ChatStream(Detokenizer(SMALL, errors="strict"))
    assert c.feed([HELLO, HALF]) == [("content", "Hello")]
    with pytest.raises(UnicodeDecodeError):
        c.push(EOS)
    assert (c.finish_reason, c.held_bytes) == (None, b"\xf0\x9f")
    assert c.feed([REST, EOS]) == [("content", "😀")]
    assert c.finish_reason == "eos"


def test_a_refused_end_loses_none_of_the_ids_that_waited_for_a_stop() -> None:
    source = Detokenizer(ByteVocabulary(), errors="strict")
    c = ChatStream(source, stop_ids=[[*b"A\xf0\x9fA"]], format=None)
    assert c.feed(list(b"xA\xf0\x9f")) == [("content", "x")]
    with pytest.raises(UnicodeDecodeError):
        c.flush()
    assert c.feed(list(b"\x99\x82")) + c.flush() == [("content", "A🙂")]


@pytest.mark.parametrize("stop", [None, "zz"])
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(("ids", "text"), [(b"xA\xffB", "x"), (b"xA\xffC", "xA")])
def test_a_stop_of_ids_that_are_no_text_is_found_where_errors_are_refused(
    ids: bytes, text: str, size: int, stop: str | None
) -> None:
    source = Detokenizer(ByteVocabulary(), errors="strict")
    c = ChatStream(source, stop=stop, stop_ids=[[*b"A\xffB"], [*b"\xffC"]], format=None)
    out = [delta for at in range(0, 4, size) for delta in c.feed([*ids[at : at + size]])]
    assert (characters(out), c.finish_reason) == (characters([("content", text)]), "stop")


@pytest.mark.parametrize("stop", [None, "zz"])
def test_a_source_of_ones_own_need_not_be_able_to_save(stop: str | None) -> None:
    class Letters:
        vocabulary = None
        errors = "replace"

        def push(self, token_id: int) -> str:
            return chr(token_id)

        def feed(self, ids: list[int]) -> str:
            return "".join(map(chr, ids))

        def flush(self) -> str:
            return ""

        def reset(self) -> None: ...

    c = ChatStream(Letters(), stop=stop, stop_ids=[[65, 66]], format=None)
    out = [delta for i in b"xAyAB" for delta in c.push(i)]
    assert (characters(out), c.finish_reason) == (characters([("content", "xAy")]), "stop")


def test_no_stop_string_ends_in_the_text_of_a_stop_sequence_that_is_shown() -> None:
    c = chat(stop_ids=[[LINE, WORLD]], stop=["wor"], include_stop=True)
    assert c.feed([HELLO, LINE, WORLD]) == [("content", "Hello\n world")]
    assert c.stopped == (LINE, WORLD)


def test_a_stop_string_that_ends_with_a_stop_sequence_is_not_what_ended_the_answer() -> None:
    c = chat(stop=["!"], stop_ids=[[LINE, BANG]])
    assert (c.feed([LINE, BANG]), c.stopped) == ([], (LINE, BANG))


def test_a_stop_sequence_that_begins_behind_a_tag_that_waited_is_none() -> None:
    c = chat(stop_ids=[[HELLO, THINK, LINE, WORLD], [LINE, BANG]])
    assert c.feed([HELLO, THINK, LINE, BANG, UNTHINK]) == [
        ("content", "Hello"),
        ("reasoning", "\n!"),
    ]
    assert (c.feed([LINE, BANG]), c.stopped) == ([], (LINE, BANG))


def test_an_end_of_text_that_waited_within_the_first_tokens_ends_nothing_behind_its_tag() -> None:
    c = chat(stop_ids=[[THINK, EOS, WORLD], [EOS, BANG, LINE]], min_tokens=2)
    assert pushed(c, THINK, EOS, BANG) == [[], [], [("reasoning", "!")], []]
    assert c.finish_reason is None
    c = chat(stop_ids=[[THINK, EOS, WORLD], [EOS, BANG, LINE]], min_tokens=1)
    assert pushed(c, THINK, EOS, BANG) == [[], [], [], []]
    assert c.finish_reason == "eos"


def test_a_stop_string_that_waited_within_the_first_tokens_ends_nothing_behind_its_tag() -> None:
    sequences = [[THINK, UNTHINK, LINE, WORLD, BANG], [UNTHINK, LINE, WORLD, HELLO, BANG]]
    c = chat(stop=["\n"], stop_ids=sequences, min_tokens=3)
    assert c.feed([THINK, UNTHINK, LINE, WORLD, HELLO]) == [("content", "\n worldHello")]
    c = chat(stop=["\n"], stop_ids=sequences, min_tokens=2)
    assert (c.feed([THINK, UNTHINK, LINE]), c.stopped) == ([], "\n")


def text_until(c: ChatStream, ids: list[int]) -> Any:
    return characters([delta for i in ids for delta in c.push(i)] + c.flush())


STOP_IDS = [[LINE, WORLD], [WORLD, WORLD, BANG], [HELLO], [UNTHINK, LINE], [BANG, BANG]]


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("scope", ["content", "everywhere"])
def test_a_stop_sequence_ends_the_answer_where_it_would_have_ended_without_it(
    scope: str, include: bool
) -> None:
    rng = random.Random(4)
    fired = 0
    for _ in range(300):
        stops = rng.sample(STOP_IDS, 3)
        ids = rng.choices([HELLO, LINE, WORLD, HALF, REST, THINK, UNTHINK, CALL, UNCALL, BANG], k=9)
        end = len(ids), None, len(ids)
        for at in range(len(ids), 0, -1):
            for stop in sorted(stops, key=len):
                begin = at - len(stop)
                if begin >= 0 and ids[begin:at] == stop:
                    before = chat()
                    before.feed(ids[:begin])
                    if scope == "everywhere" or before.channel == "content":
                        end = begin, tuple(stop), at
        fired += end[1] is not None
        c = chat(stop_ids=stops, stop_scope=scope, include_stop=include)
        out = text_until(c, ids)
        assert (c.stopped, c.tokens) == end[1:], (stops, ids)
        assert out == text_until(chat(), ids[: end[2 if include else 0]]), (stops, ids)
    assert fired > 50


def test_any_chunking_of_ids_gives_the_same_answer() -> None:
    rng = random.Random(5)
    options = [
        {"stop": ["STOP", "o\n"]},
        {"stop_ids": STOP_IDS[:2], "stop": ["!"]},
        {"stop": ["STOP"], "stop_scope": "everywhere", "include_stop": True},
        {"max_tokens": 7, "min_tokens": 3, "stop": ["!"], "stop_ids": [[LINE, WORLD]]},
    ]
    for number in range(400):
        ids = rng.choices([*range(len(TOKENS)), ST, OP, HELLO], k=30)
        ids = [i for i in ids if i != EOS or number % 2]
        found = []
        for size in (1, 2, 9, 30):
            c, out = chat(**options[number % 4]), []
            for at in range(0, len(ids), size):
                out += c.feed(ids[at : at + size])
            found.append(
                (characters(out + c.flush()), c.tokens, c.finish_reason, c.stopped, c.calls)
            )
        assert found[1:] == found[:1] * 3, ids


def test_nothing_ends_an_answer_within_its_first_tokens() -> None:
    c = chat(stop=["STOP"], stop_ids=[[BANG]], min_tokens=4)
    assert pushed(c, EOS, BANG, ST, OP, ST, OP) == [
        [],
        [("content", "!")],
        [],
        [("content", "STOP")],
        [],
        [],
        [],
    ]
    assert c.finish_reason == "stop"


@pytest.mark.parametrize("cut", [[0, 1, 2, 3, 4, 5, 6], [0, 3, 6], [0, 6]])
@pytest.mark.parametrize("skip", [True, False])
def test_tags_that_are_special_tokens_are_recognised_by_their_ids(
    skip: bool, cut: list[int]
) -> None:
    c = ChatStream(Detokenizer(SMALL, skip_special_tokens=skip))
    ids = [THINK, HELLO, UNTHINK, CALL, BANG, UNCALL, WORLD][: cut[-1] + 1]
    out = [
        delta for a, b in zip(cut, [*cut[1:], len(ids)]) for delta in c.feed(ids[a:b])
    ] + c.flush()
    assert [tuple(delta) for delta in out] == [
        ("reasoning", "Hello"),
        ("tool_call", "!"),
        ("content", " world"),
    ]
    assert c.calls == ["!"]


@pytest.mark.parametrize("skip", [True, False])
def test_repeated_blocks_and_open_calls_are_recognised_by_the_ids_of_their_tags(skip: bool) -> None:
    c = ChatStream(
        Detokenizer(SMALL, skip_special_tokens=skip),
        reasoning="all",
        tools=[("<tool_call>", None), ("<eos>", "x")],
        eos_ids=None,
    )
    ids = [THINK, HELLO, UNTHINK, BANG, THINK, LINE, UNTHINK, WORLD, CALL, BANG, CALL, HELLO]
    assert [tuple(delta) for delta in c.feed(ids)] == [
        ("reasoning", "Hello"),
        ("content", "!"),
        ("reasoning", "\n"),
        ("content", " world"),
        ("tool_call", "!"),
        ("tool_call", "Hello"),
    ]
    fork = c.copy()
    assert (c.flush(), fork.flush(), c.calls, fork.calls) == ([], [], *[["!", "Hello"]] * 2)


def test_a_tag_that_is_not_expected_is_skipped_like_any_special_token() -> None:
    c = chat()
    assert pushed(c, HALF, UNTHINK, REST) == [[], [], [("content", "😀")], []]


def test_a_repeated_open_tag_is_recognised_by_its_id() -> None:
    assert pushed(chat(start="reasoning"), THINK, HELLO, UNTHINK, BANG) == [
        [],
        [("reasoning", "Hello")],
        [],
        [("content", "!")],
        [],
    ]


@pytest.mark.parametrize("ids", [[HELLO, 99], [HELLO, EOS, 99], [HELLO, CALL, 99]])
def test_a_chunk_with_an_unknown_id_changes_nothing(ids: list[int]) -> None:
    c = chat(min_tokens=9)
    c.push(BANG)
    before = c.save()
    with pytest.raises(VocabularyError, match="99"):
        c.feed(ids)
    assert c.save() == before
    assert c.feed([HELLO]) == [("content", "Hello")]


def test_any_iterable_of_ids_is_a_chunk() -> None:
    assert chat().feed(i for i in (HELLO, WORLD)) == [("content", "Hello world")]


def test_a_state_can_be_saved_as_json_after_every_id() -> None:
    ids = [HELLO, HALF, REST, THINK, ST, UNTHINK, LINE, ST, BANG, CALL, HALF, REST, UNCALL, ST, OP]
    options = {"stop": ["STOP"], "stop_ids": [[LINE, WORLD]]}
    whole = chat(**options).feed(ids)
    c, out = chat(**options), []
    for i in ids:
        state = json.loads(json.dumps(c.save(calls=True)))
        c = chat(**options)
        c.load(state)
        out += c.push(i)
    texts = {
        channel: "".join(text for name, text in whole if name == channel) for channel, _ in whole
    }
    assert texts == {
        channel: "".join(text for name, text in out if name == channel) for channel, _ in out
    }
    assert (c.finish_reason, c.stopped, c.calls, c.tokens) == ("stop", "STOP", ["😀"], len(ids))


def test_rollback_counts_the_characters_of_each_channel() -> None:
    c = chat()
    c.feed([THINK, HELLO])
    mark = c.mark()
    c.feed([WORLD, UNTHINK, BANG])
    assert c.rollback(mark) == {"reasoning": 6, "content": 1}
    assert c.rollback(mark) == {}
    assert c.channel == "reasoning"
    assert c.push(BANG) == [("reasoning", "!")]


def test_reset_begins_an_answer_behind_another_prompt() -> None:
    c = chat()
    c.push(HELLO)
    c.reset(iter([WORLD, HALF]))
    assert (c.push(REST), c.tokens) == ([("content", "😀")], 1)
    with pytest.raises(ValueError, match="takes bytes"):
        ChatStream(StreamingDetokenizer()).reset([1])


@pytest.mark.parametrize("copied", [ChatStream.copy, copy.copy, copy.deepcopy])
def test_a_copy_is_independent(copied: Callable[[ChatStream], ChatStream]) -> None:
    c = chat(stop=["STOP"])
    c.feed([HALF])
    fork = copied(c)
    assert (c.push(REST), fork.push(BANG)) == ([("content", "😀")], [("content", "\ufffd!")])
    c.feed([CALL, BANG, UNCALL])
    assert (c.calls, fork.calls) == (["!"], [])


def test_feeding_after_the_end_is_refused_until_reset() -> None:
    c = chat()
    c.push(HELLO)
    assert (c.flush(), c.flush()) == ([], [])
    with pytest.raises(StreamEndedError):
        c.push(HELLO)
    c.reset()
    assert (c.push(HELLO), c.tokens) == ([("content", "Hello")], 1)


@pytest.mark.parametrize(
    "options", [{"eos_ids": [1]}, {"stop_ids": [[1]]}, {"min_tokens": 1}, {"max_tokens": 1}]
)
def test_options_about_ids_are_refused_for_bytes(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="takes bytes"):
        ChatStream(StreamingDetokenizer(), **options)  # type: ignore[arg-type]


INSIDE: dict[str, Any] = {"start": "reasoning"}


@pytest.mark.parametrize(
    ("text", "options", "content"),
    [
        ("<think>abc</think>Hello world", {}, "Hello world"),
        ("Hi <think>a</think> there <think>b</think>", {}, "Hi  there <think>b</think>"),
        ("<think>so far", {}, ""),
        ("a </think> b <th", {}, "a </think> b <th"),
        ("<tool_call>{}</tool_call></s>", {}, "<tool_call>{}</tool_call></s>"),
        ("so</think>Four<think>.</think>!", INSIDE, "Four<think>.</think>!"),
        ("so</think>Four<think>.</think>!", INSIDE | {"every": True}, "Four!"),
        ("<think>so</think>Four<think>.</think>!", INSIDE | {"every": True}, "Four!"),
    ],
)
def test_strip_thinking_returns_the_content_of_a_whole_text(
    text: str, options: dict[str, Any], content: str
) -> None:
    assert strip_thinking(text, **options) == content


def test_what_half_a_character_refutes_is_shown_with_it() -> None:
    c = chat(stop=["\nUser:"])
    assert pushed(c, HELLO, LINE, HALF, REST) == [
        [("content", "Hello")],
        [],
        [("content", "\n")],
        [("content", "😀")],
        [],
    ]
    c = chat(stop=["\n😀!", "\n\ufffd"])
    assert pushed(c, LINE, HALF, REST, HELLO)[:4] == [[], [], [], [("content", "\n😀Hello")]]
    c = chat(reasoning=("\n🙂", "\n🙂"))
    assert pushed(c, LINE, HALF)[1] == []  # 🙂 can still come
    c = ChatStream(StreamingDetokenizer(errors="ignore"), stop=["\nU"])
    assert (c.feed(b"\n"), c.feed(b"\xf0\x9f"), c.feed(b"U")) == ([], [], [])


def test_what_is_shown_ahead_is_no_longer_held_and_comes_once() -> None:
    c = chat(stop=["\nUser:"], tools=("!", None))
    c.feed([BANG, LINE, HALF])
    assert (c.held_text, c.held_bytes, c.open_call) == ("", b"\xf0\x9f", "\n")
    again = chat(stop=["\nUser:"], tools=("!", None))
    again.load(json.loads(json.dumps(c.save(calls=True))))
    for each in (c, c.copy(), again):
        assert each.push(REST) == [("tool_call", "😀")]
        assert each.open_call == "\n😀"


@pytest.mark.parametrize(
    "stop", [iter(["STOP"]), {"STOP"}, frozenset(["STOP"]), (word for word in ["STOP"]), "STOP"]
)
def test_stops_are_kept_whatever_they_come_in(stop: Any) -> None:
    c = chat(stop=stop)
    for each in (c.copy(), c):
        assert characters(each.feed([HELLO, ST, OP, WORLD])) == characters(
            [Delta("content", "Hello")]
        )
        assert (each.stopped, each.tokens) == ("STOP", 3)


def test_a_list_that_its_owner_changes_later_changes_nothing() -> None:
    stop, tags = ["STOP"], [["<think>", "</think>"]]
    stop_ids = [[LINE, WORLD]]
    c = chat(stop=stop, reasoning=tags, stop_ids=stop_ids)
    stop.clear()
    tags[0][0] = "!"
    stop_ids[0].append(BANG)
    for each in (c.copy(), c):
        assert each.feed([THINK, BANG]) == [("reasoning", "!")]
        assert (each.feed([UNTHINK, ST, OP]), each.stopped) == ([], "STOP")


@pytest.mark.native  # the wheel for browsers shortens private names
def test_a_stream_comes_out_of_a_table_if_its_detokenizer_does() -> None:
    parts = chat()._parts
    begin = parts.key
    assert begin is not None
    assert parts.is_at(begin)
    parts.source.push(HALF)
    assert not parts.is_at(begin)
    assert ChatStream(Detokenizer(SMALL, spans=True))._parts.key is None


@pytest.mark.native
def test_the_words_of_a_set_are_in_one_order_in_every_process() -> None:
    words = {f"stop {n}" for n in range(50)}
    assert chat(stop=words)._parts.channels.options["stop"] == tuple(sorted(words))
    ids = {(n, n + 1) for n in range(20)}
    assert chat(stop_ids=ids, eos_ids=None)._parts.rules.sequences == tuple(sorted(ids))


def test_a_string_is_one_marker() -> None:
    c = ChatStream(StreamingDetokenizer(), trim_artifacts="<s>")
    assert c.feed(b"<s>so s<s") + c.flush() == [("content", "so s"), ("content", "<s")]
    for wrong in ([""], [b"<s>"]):
        with pytest.raises(ValueError, match="non-empty str"):
            chat(trim_artifacts=wrong)


def test_a_stop_that_overlaps_itself_two_thousand_times_costs_no_more_than_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    look = ArtifactSearch.artifacts

    def counted(*args: Any, **kwargs: Any) -> int:
        nonlocal looks
        looks += 1
        return look(*args, **kwargs)

    monkeypatch.setattr(ArtifactSearch, "artifacts", counted)
    c = ChatStream(StreamingDetokenizer(), stop=["a" * 2000 + "b"])
    for _ in range(1500):
        c.feed(b"a")
    assert looks < 1500 * 8
    assert len(c.held_text) == 1500
    looks = 0
    c = chat(stop=["a" * 1000 + "b"], min_tokens=1 << 20)
    assert characters(c.feed([LINE, HELLO])) == characters([Delta("content", "\nHello")])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_tokens": 1.5}, TypeError),
        ({"min_tokens": "2"}, TypeError),
        ({"max_tokens": True}, TypeError),
        ({"max_tokens": -1}, ValueError),
    ],
)
def test_a_number_of_tokens_is_an_int(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options))):
        chat(**options)


def test_a_stream_of_ids_takes_no_bytes_and_one_of_bytes_no_ids() -> None:
    c = chat()
    for chunk in (b"Hello", bytearray(b"H"), memoryview(b"Hi")):
        with pytest.raises(TypeError, match="A chunk is a list of token ids, not"):
            c.feed(chunk)  # type: ignore[arg-type]
    with pytest.raises(VocabularyError, match="a token id is an integer, not 'H'"):
        c.feed("Hello")
    assert c.feed([HELLO]) == [("content", "Hello")]
    with pytest.raises(TypeError, match="takes bytes: use `feed`"):
        ChatStream(StreamingDetokenizer()).push(1)


@pytest.mark.parametrize(
    "options",
    [
        {"stop": ["STOP"], "min_tokens": 50},
        {"stop_ids": [[LINE, WORLD, BANG]], "max_tokens": 60},
        {"tools": [["!", None]], "trim_artifacts": ["Hello"]},
    ],
)
def test_what_comes_out_of_the_table_is_what_the_parts_give(options: dict[str, Any]) -> None:
    rng = random.Random(8)
    ids = rng.choices([HELLO, LINE, WORLD, HALF, REST, ST, OP, BANG, SLASH], k=80)
    first, marked = chat(**options), chat(**options)
    marked.mark()
    expected = [first.push(i) for i in ids]
    assert [marked.push(i) for i in ids] == expected
    assert [chat(**options).feed([*ids[:n]])[-1:] for n in range(1, 3)]
    second = chat(**options)
    assert [second.push(i) for i in ids] == expected
    for one in (second, marked):
        assert (one.tokens, one.calls, one.open_call, one.save()[0]) == (
            first.tokens,
            first.calls,
            first.open_call,
            first.save()[0],
        )


@pytest.mark.native  # the wheel for browsers shortens private names
@pytest.mark.parametrize("name", ["granite4", "deepseek_v3.1"])
def test_inside_the_arguments_of_a_call_a_step_is_found_out_once(name, monkeypatch) -> None:
    pieces = {
        "granite4": ["<tool_call>", '{"name": "f", "arguments": {"a": "'],
        "deepseek_v3.1": [
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁call▁begin｜>",
            "f",
            "<｜tool▁sep｜>",
            '{"a": "',
        ],
    }[name]
    vocabulary = Vocabulary.from_bytes([one.encode() for one in [*pieces, "x", "y"]])
    ids, x, y = range(len(pieces)), len(pieces), len(pieces) + 1
    found_out = []
    push = ChatStream._push
    monkeypatch.setattr(
        ChatStream, "_push", lambda self, one: found_out.append(one) or push(self, one)
    )
    for _ in range(2):
        c = ChatStream(Detokenizer(vocabulary), format=name)
        for i in ids:
            c.push(i)
        found_out.clear()
        said = [c.push(one) for one in (x, x, y, x, y, x)]
        assert ["".join([d.text for d in deltas]) for deltas in said] == list("xxyxyx")
        assert (c.calls[0].name, c.calls[0].arguments.endswith('"xxyxyx')) == ("f", True)
    assert len(found_out) <= 1


def test_vocabularies_with_other_ends_of_text_keep_their_own_in_shared_tables():
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"c"])
    for ends, shown in (((), "abc"), ((1,), "a"), ((2,), "ab"), ((), "abc")):
        stream = ChatStream(Detokenizer(vocabulary.with_eos_ids(ends)))
        deltas = stream.feed([0, 1, 2]) + stream.flush()
        assert "".join([delta.text for delta in deltas]) == shown
        assert stream.finish_reason == ("eos" if ends else None)


def test_a_copy_has_the_stop_ids_that_begin_with_an_end_of_text() -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"<eos>", b"c"], eos_ids=[1])
    stream = ChatStream(Detokenizer(vocabulary), stop_ids=[[1, 2]], min_tokens=1)
    for each in (stream.copy(), stream):
        assert [*each.feed([1, 2]), *each.flush()] == []
        assert each.stopped == (1, 2)


def test_a_mark_that_is_ahead_of_the_stream_is_refused() -> None:
    stream = ChatStream(Detokenizer(SMALL))
    early = stream.mark()
    stream.push(HELLO)
    late = stream.mark()
    assert stream.rollback(early) == {"content": 5}
    with pytest.raises(ValueError, match="ahead"):
        stream.rollback(late)
    assert [delta.text for delta in stream.push(WORLD)] == [" world"]


PICKLED: list[tuple[dict[str, Any], bytes]] = [
    ({}, b"Hi<think>a</think><tool_call>b"),
    ({"stop": ["ab"], "stop_ids": [[104, 105]], "min_tokens": 2, "max_tokens": 99}, b"<think>xa"),
    ({"format": "qwen3_hermes"}, b'<tool_call>{"name": "f", "arguments": {"a": [1'),
    ({"format": "json"}, b'{"a": "b'),
    (
        {"format": ChatFormat.from_template({"fields": {"thinking": {"open": "<", "close": ">"}}})},
        b"<Hm",
    ),
]


@pytest.mark.parametrize(("options", "begin"), PICKLED)
@pytest.mark.parametrize("source", [StreamingDetokenizer(), Detokenizer(ByteVocabulary())])
def test_a_pickled_stream_goes_on_where_it_was(
    source: Any, options: dict[str, Any], begin: bytes
) -> None:
    if source.__class__ is StreamingDetokenizer:
        options = {key: value for key, value in options.items() if key in ("format", "stop")}
    c: ChatStream[Any] = ChatStream(source.copy(), **options)
    c.feed(begin if source.__class__ is StreamingDetokenizer else list(begin))
    other = pickle.loads(pickle.dumps(c))
    assert other.save(calls=True) == c.save(calls=True)
    for byte in b'x", "c": 2}]}}</tool_call> b>\xf0\x9f\x98\x80hiab':
        chunk = bytes([byte]) if source.__class__ is StreamingDetokenizer else [byte]
        assert other.feed(chunk) == c.feed(chunk)
    assert (other.flush(), other.finish_reason) == (c.flush(), c.finish_reason)
    assert list(map(str, other.calls)) == list(map(str, c.calls))


def test_a_reset_to_an_unknown_id_leaves_the_answer_as_it_is() -> None:
    c = chat()
    for ids in ([HELLO, THINK, HALF], [HELLO, THINK, HALF]):  # the second time from the table
        c.reset()
        for i in ids:
            c.push(i)
        with pytest.raises(VocabularyError):
            c.reset([HELLO, 99])
        assert (c.channel, c.tokens, c.held_bytes) == ("reasoning", 3, b"\xf0\x9f")
        assert c.push(REST) == [("reasoning", "😀")]


@pytest.mark.parametrize("beyond", [False, True], ids=["a hole", "beyond the vocabulary"])
def test_an_added_id_that_has_no_piece_is_no_marker(beyond: bool) -> None:
    tokens = [b"a", b"<think>", None]
    v = Vocabulary.from_bytes(tokens, special_ids=[1], added_ids=[1, 9 if beyond else 2])
    c = ChatStream(Detokenizer(v), format="qwen3_hermes")
    assert c.feed([1, 0]) == [("reasoning", "a")]
