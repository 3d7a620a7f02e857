"""The law for stops, tags and artifacts, by brute force: all texts over a small alphabet, every
cut, every end, every state through JSON.
"""

import itertools
import random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from detok_py.decode.channels import ARTIFACTS, Channels
from detok_py.decode.chat import ChatStream
from detok_py.decode.stop_strings import StopStrings
from detok_py.decode.utf8 import StreamingDetokenizer
from laws.oracle import Certain, characters, final_deltas, final_text, ignores_cuts, obeys_the_law

pytestmark = pytest.mark.slow

WORDS = ["".join(letters) for size in (1, 2, 3) for letters in itertools.product("ab", repeat=size)]
STOP_SETS = [(word,) for word in WORDS] + list(itertools.combinations(WORDS, 2))


def check_stops(stops: tuple[str, ...], include: bool, min_chars: int, most: int) -> int:
    certain = Certain(
        lambda text: final_text(text, stops, include, min_chars),
        "abc",
        max(map(len, stops)) + min_chars,
    )
    return obeys_the_law(lambda: StopStrings(stops, include, min_chars), certain, "", most)


@pytest.mark.slow_in_wasm
@pytest.mark.parametrize("include", [False, True])
def test_one_stop_or_two_of_up_to_three_letters(include: bool) -> None:
    assert sum(check_stops(stops, include, 0, 4) for stops in STOP_SETS) == 105 * 121


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("include", [False, True])
def test_longer_texts_with_one_stop_or_two(include: bool) -> None:
    assert sum(check_stops(stops, include, 0, 6) for stops in STOP_SETS[::5]) == 21 * 1093


@pytest.mark.soak
@pytest.mark.parametrize("include", [False, True])
def test_longer_texts_with_any_one_stop_or_two(include: bool) -> None:
    assert sum(check_stops(stops, include, 0, 6) for stops in STOP_SETS) == 105 * 1093


@pytest.mark.sampled(2)
@pytest.mark.parametrize("min_chars", [1, 2])
def test_a_stop_that_ends_within_the_first_characters_is_text(min_chars: int) -> None:
    for stops in STOP_SETS[::7]:
        check_stops(stops, False, min_chars, 4)


@pytest.mark.parametrize(
    "stops",
    [("aab",), ("abab",), ("abcab", "ca"), ("abcd", "bc"), ("bab", "b"), ("aaab", "aa", "ba")],
    ids=str,
)
def test_cuts_make_no_difference_to_stops(stops: tuple[str, ...]) -> None:
    certain = Certain(lambda text: final_text(text, stops), "abcd", max(map(len, stops)))
    for text in ("aaabaab", "abaabab", "abcabca", "xabcdab", "bcabcab"):
        ignores_cuts(lambda: StopStrings(stops), certain, text)


def channels_of(choose: random.Random) -> dict[str, Any]:
    """Return random stops, tags and artifacts over two letters, short enough to overlap, hide and
    contain each other often.
    """

    def word(most: int) -> str:
        return "".join(choose.choice("ab") for _ in range(choose.randint(1, most)))

    reasoning = (word(3), word(3)) if choose.random() < 0.7 else None
    tools = (word(3), word(2)) if choose.random() < 0.5 else None
    if reasoning and tools and reasoning[0] == tools[0]:
        tools = None
    return {
        "stops": tuple(sorted({word(3) for _ in range(choose.randint(0, 2))})),
        "include": choose.random() < 0.4,
        "everywhere": choose.random() < 0.4,
        "reasoning": reasoning,
        "tools": tools,
        "edges": tuple(sorted({word(3) for _ in range(choose.randint(0, 2))})),
        "start": choose.choice(
            ["content"] + ["reasoning"] * bool(reasoning) + ["tool_call"] * bool(tools)
        ),
    }


def several_pairs_of(choose: random.Random) -> dict[str, Any]:
    """Return the same with several pairs of tags, some of which count in every block or need no
    close tag.
    """
    given = channels_of(choose)
    words = choose.sample(WORDS, 8)
    thoughts = [
        (words.pop(), words.pop(), *["all"] * choose.randint(0, 1))
        for _ in range(choose.randint(1, 2))
    ]
    calls = [(words.pop(), choose.choice([words.pop(), None])) for _ in range(choose.randint(0, 2))]
    start = choose.choice(["content", "content", "reasoning"] + ["tool_call"] * bool(calls))
    return given | {"reasoning": thoughts, "tools": calls or None, "start": start}


def make_channels(given: dict[str, Any]) -> Channels:
    return Channels(
        given["stops"],
        include_stop=given["include"],
        stop_scope="everywhere" if given["everywhere"] else "content",
        reasoning=given["reasoning"],
        tools=given["tools"],
        start=given["start"],
        trim_artifacts=given["edges"],
    )


def in_soak(first: int, last: int) -> list[Any]:
    return [pytest.param(seed, marks=pytest.mark.soak) for seed in range(first, last)]


def check_channels(seed: int, most: int, choose: Any = channels_of) -> None:
    given = choose(random.Random(seed))
    certain = Certain(lambda text: final_deltas(text, **given), "abc", 4)
    obeys_the_law(lambda: make_channels(given), certain, "", most, characters)
    ignores_cuts(lambda: make_channels(given), certain, "abbab", characters)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(20))
def test_stops_tags_and_artifacts_together(seed: int) -> None:
    check_channels(seed, 4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(10))
def test_several_pairs_of_tags_at_once(seed: int) -> None:
    check_channels(seed, 4, several_pairs_of)


@pytest.mark.full
@pytest.mark.parametrize("seed", [*range(10, 25), *in_soak(25, 60)])
def test_more_pairs_of_tags_at_once(seed: int) -> None:
    check_channels(seed, 5, several_pairs_of)


@pytest.mark.sampled(20)
@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [*range(100, 120), *in_soak(120, 300)],
)
def test_more_stops_tags_and_artifacts_over_longer_texts(seed: int) -> None:
    check_channels(seed, 5)


def test_a_text_in_one_chunk_and_letter_by_letter_stops_at_the_same_place() -> None:
    choose = random.Random(7)
    for _ in range(200):
        words = [
            "".join(choose.choice("ab") for _ in range(choose.randint(1, 4)))
            for _ in range(choose.randint(1, 4))
        ]
        searching, walking = StopStrings(words), StopStrings(words)
        text = "".join(choose.choice("abccccccccc") for _ in range(choose.randint(0, 80)))
        walked = "".join(walking.feed(letter) for letter in text) + walking.flush()
        assert searching.feed(text) + searching.flush() == walked == final_text(text, words)
        assert searching.stopped == walking.stopped


PIECES = st.sampled_from(
    [
        *("<think>", "</think>", "<tool_call>", "</tool_call>", "STOP", "ST", "OP", "<", "</"),
        *("<th", "ink>", "a", " ", "\n", "é", "👩‍🚀", "\ufffd"),
    ]
    + ["<|im_end|>", "<|im_", "end|>", "<|im_start|>assistant\n", "</s>", "<|eot_id|>\n"]
)


class WholeStack(RuleBasedStateMachine):
    """Bytes, stops, channels and artifacts in one stream: cut anywhere, saved, copied and loaded
    again, compared with the final deltas of the whole text.
    """

    @initialize(
        start=st.sampled_from(["content", "reasoning"]),
        include=st.booleans(),
        everywhere=st.booleans(),
    )
    def begin(self, start: str, include: bool, everywhere: bool) -> None:
        self.start, self.include, self.everywhere = start, include, everywhere
        self.given = b""
        self.shown: tuple[tuple[str, str], ...] = ()
        self.stream = self.make()

    def make(self) -> ChatStream:
        scope = "everywhere" if self.everywhere else "content"
        return ChatStream(
            StreamingDetokenizer(),
            ["STOP", "OP ST"],
            start=self.start,
            include_stop=self.include,
            stop_scope=scope,
        )

    def final(self, data: bytes) -> tuple[tuple[str, str], ...]:
        return final_deltas(
            data.decode("utf-8", "replace"),
            stops=("STOP", "OP ST"),
            include=self.include,
            everywhere=self.everywhere,
            reasoning=("<think>", "</think>"),
            tools=("<tool_call>", "</tool_call>"),
            start=self.start,
            edges=ARTIFACTS,
        )

    def feed(self, data: bytes) -> None:
        self.given += data
        self.shown += characters(self.stream.feed(data))
        after = [b"", b"|", b"x", b">", b"TOP", b"_end|>", b"\n<|im_end|>", b"think>", b"</think>x"]
        for more in after if self.stream.finish_reason is None else [b""]:
            final = self.final(self.given + more)
            assert final[: len(self.shown)] == self.shown, (
                "shown text is not a prefix of the final text"
            )

    @rule(text=PIECES)
    def a_piece(self, text: str) -> None:
        self.feed(text.encode())

    @rule(text=PIECES, at=st.integers(1, 6))
    def a_piece_in_two(self, text: str, at: int) -> None:
        data = text.encode()
        self.feed(data[:at])
        self.feed(data[at:])

    @rule(data=st.binary(max_size=3))
    def any_bytes(self, data: bytes) -> None:
        self.feed(data)

    @rule()
    def nothing(self) -> None:
        assert self.stream.feed(b"") == []

    @rule()
    def another_process(self) -> None:
        state = self.stream.save()
        self.stream = self.make()
        self.stream.load(state)

    @rule()
    def a_fork_that_ends(self) -> None:
        fork = self.stream.copy()
        assert self.shown + characters(fork.flush()) == self.final(self.given)
        assert (fork.held_text, fork.held_bytes) == ("", b"")

    @precondition(lambda self: self.stream.finish_reason is None)
    @rule(text=PIECES)
    def a_guess_that_is_taken_back(self, text: str) -> None:
        fork = self.stream.copy()
        mark = fork.mark()
        shown = characters(fork.feed(text.encode()))
        back = fork.rollback(mark)
        assert sum(back.values()) == len(shown)
        assert characters(fork.feed(text.encode())) == shown

    def teardown(self) -> None:
        if hasattr(self, "stream"):
            assert self.shown + characters(self.stream.flush()) == self.final(self.given)


test_the_whole_stack = WholeStack.TestCase
# The reference reads every position of the whole text after every step, so the time of a long
# stream grows with the square of its length.
test_the_whole_stack.settings = settings(
    max_examples=max(10, settings.default.max_examples // 5), stateful_step_count=15
)
