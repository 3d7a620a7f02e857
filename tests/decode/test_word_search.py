"""The automaton that finds words: the first match, the state between chunks, the held length."""

import random
from typing import Any

import pytest
from work import lines_run

from detok_py.decode.channels import Channels
from detok_py.decode.word_search import EDGE, KEPT, STOP, WordSearch


def search(*words: str, kind: str = STOP) -> WordSearch:
    return WordSearch([(word, kind) for word in words])


def state_after(automaton: WordSearch, text: str) -> int:
    state, at, match = automaton.scan(0, text)
    assert (at, match) == (len(text), None)
    return state


def test_the_word_that_is_complete_first_matches() -> None:
    assert search("abcd", "bc").scan(0, "xabcd")[1:] == (4, (STOP, "bc"))


def test_of_words_complete_at_the_same_symbol_the_longest_matches() -> None:
    assert search("c", "bc", "abc").scan(0, "abc")[1:] == (3, (STOP, "abc"))


def test_a_word_that_overlaps_itself_is_found() -> None:
    assert search("aab").scan(0, "aaab")[1:] == (4, (STOP, "aab"))


def test_a_match_continues_in_the_next_chunk() -> None:
    automaton = search("STOP")
    assert automaton.scan(state_after(automaton, "a ST"), "OP!")[1:] == (2, (STOP, "STOP"))


def test_the_words_can_be_sequences_of_ids() -> None:
    automaton = WordSearch([((7, 8), STOP), ((9,), STOP)])
    state, _, match = automaton.scan(0, (1, 7))
    assert match is None
    assert automaton.held_length(state) == 1
    assert automaton.scan(state, (8,))[2] == (STOP, (7, 8))


def test_a_stop_matches_before_a_tag_of_the_same_spelling() -> None:
    automaton = WordSearch([("<a>", "tag"), ("<a>", STOP)])
    assert automaton.scan(0, "<a>")[2] == (STOP, "<a>")
    assert automaton.scan(0, "<a>", 0, tags_only=True)[2] == ("tag", "<a>")


@pytest.mark.parametrize(
    ("text", "length"), [("", 0), ("a", 0), ("ab", 1), ("xb", 1), ("bb", 1), ("ax", 0)]
)
def test_nothing_waits_for_a_word_with_another_one_inside(text: str, length: int) -> None:
    """The states of the diagram in the module's docstring: "abcd" is never the first match."""
    automaton = search("abcd", "bc")
    assert automaton.held_length(state_after(automaton, text)) == length
    tags = search("abcd", "bc", kind="tag")
    assert [tags.held_length(state_after(tags, text), no_stop) for no_stop in (0, -1)] == [
        length
    ] * 2


def test_a_stop_that_is_shown_holds_nothing() -> None:
    automaton = search("STOP", kind=KEPT)
    assert automaton.held_length(state_after(automaton, "STO")) == 0


def test_a_passive_word_does_not_match() -> None:
    assert search("</s>", kind=EDGE).scan(0, "a</s>b")[1:] == (6, None)


def test_a_passive_word_that_ends_with_a_stop_that_is_shown_is_that_stop() -> None:
    automaton = WordSearch([("xb", EDGE), ("b", KEPT)])
    assert automaton.match_kind(state_after(automaton, "x"), 1, "xb", EDGE) == KEPT
    hidden = WordSearch([("xb", EDGE), ("b", STOP)])
    assert hidden.match_kind(state_after(hidden, "x"), 1, "xb", EDGE) == ""


def test_a_stop_that_would_end_too_early_holds_nothing() -> None:
    automaton = search("STOP")
    state = state_after(automaton, "ST")
    assert [automaton.held_length(state, no_stop) for no_stop in (0, 1, 2, -1)] == [2, 2, 0, 2]


def test_an_empty_word_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        search("")


def test_streams_with_the_same_words_share_an_automaton() -> None:
    words = (("STOP", STOP),)
    assert WordSearch.shared(words) is WordSearch.shared(words)


@pytest.mark.parametrize(
    "words", [["STOP", "<|end|>", "\n\n", "S", "]-^"], ["x"], ["aa", "ba"]], ids=str
)
def test_the_same_matches_are_found_without_regular_expressions(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = (
        ["." * 40 + word + "." * 40 for word in words]
        + ["." * 50 + word[0] for word in words]
        + ["." * 60]
    )
    found = [search(*words).scan(0, text) for text in texts]
    monkeypatch.setattr("detok_py.decode.word_search.HAS_REGULAR_EXPRESSIONS", False)
    assert [search(*words).scan(0, text) for text in texts] == found


def work_of(count: int, alike: bool) -> tuple[int, int, int, int]:
    """Return the lines that run to make a stream with so many stops, for its first text, for the
    same text again, and to take up a saved state.
    """
    # Tables are shared, so each call has stops of its own; they are the same in every run.
    choose = random.Random(2 * count + alike)
    mark = f"{choose.randrange(1 << 32):08x}"
    letters = "abcdefghijklmnop"
    stops = [
        f"abcabc{n:06}{mark}" if alike else "".join(choose.choices(letters, k=12))
        for n in range(count)
    ]
    text = "abcabc00" * 60 if alike else "".join(random.Random(1).choices(letters, k=500))
    made: list[Channels] = []
    making = lines_run(lambda: made.append(Channels(stop=stops)))
    stream = made[0]

    def read() -> None:
        for character in text:
            stream.feed(character)

    first, again = lines_run(read), lines_run(read)
    saved = stream.save()
    return making, first, again, lines_run(lambda: stream.load(saved))


@pytest.mark.slow
@pytest.mark.unrecorded  # a recorder works too
@pytest.mark.parametrize("alike", [False, True])
def test_a_long_stop_list_costs_work_when_it_is_made_and_none_for_each_character(
    alike: bool,
) -> None:
    few, many = work_of(300, alike), work_of(1200, alike)
    assert many[0] < 4.4 * few[0], "making grows faster than the list"
    # What is met for the first time is looked up once: by the states that a text goes through, and
    # once for the stops that begin alike.
    assert many[1] < few[1] * 2 + 60 * 1200
    assert many[2] < 1.1 * few[2], "a character costs more with more stops"
    assert many[3] == few[3]


@pytest.mark.native  # the wheel for browsers shortens private names
def test_a_second_thread_holds_what_the_first_one_is_working_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    automaton = search("STOP")
    state = state_after(automaton, "x ST")
    match_kind, seen = WordSearch.match_kind, []

    def interrupted(self: WordSearch, *given: Any) -> str | None:
        if not seen:
            seen.append(-1)
            seen[0] = self.held_length(state)
        return match_kind(self, *given)

    monkeypatch.setattr(WordSearch, "match_kind", interrupted)
    assert (automaton.held_length(state), seen) == (2, [2])
