"""Rules that see text: any cutting gives the same text, and a row of them obeys the law."""

import itertools

import pytest
from laws.oracle import Certain

from detok_py.decode.machine import make_machine
from detok_py.decode.rules import read_rules
from detok_py.decode.text_stages import Exact, ReplaceText, Row, StripText, WholeText, text_row


def replace(find, put):
    return {"type": "Replace", "pattern": {"String": find}, "content": put}


def strip(start, stop):
    return {"type": "Strip", "content": " ", "start": start, "stop": stop}


def row(*rules, clean_up=False):
    found = read_rules({"type": "Sequence", "decoders": [{"type": "Fuse"}, *rules]}, clean_up)
    return text_row(found.text, "replace")


STAGES = {
    "replace": (lambda: ReplaceText("aab", "c"), lambda text: text.replace("aab", "c")),
    "strip": (lambda: StripText(" ", 1, 2), lambda text: striped(text, 1, 2)),
    "whole": (lambda: WholeText(str.upper), str.upper),
    "row": (
        lambda: Row([ReplaceText("ab", "b"), ReplaceText("bb", " ")]),
        lambda text: text.replace("ab", "b").replace("bb", " "),
    ),
    "exact": (
        lambda: Exact(make_machine([ReplaceText("ab", "b"), StripText(" ", 1, 1)], " ab")),
        lambda text: striped(text.replace("ab", "b"), 1, 1),
    ),
}


def striped(text, start, stop):
    while start and text.startswith(" "):
        text, start = text[1:], start - 1
    while stop and text.endswith(" "):
        text, stop = text[:-1], stop - 1
    return text


@pytest.mark.parametrize("name", STAGES)
def test_every_cutting_gives_the_text_of_the_whole(name):
    make, whole = STAGES[name]
    for letters in itertools.product("ab ", repeat=5):
        text = "".join(letters)
        for cut in range(6):
            stage = make()
            out = stage.feed(text[:cut])
            other = make()
            other.state = stage.state
            assert other.held == stage.held
            assert out + other.feed(text[cut:]) + other.flush() == whole(text), (text, cut)
            assert other.held == ""


@pytest.mark.parametrize(
    ("rules", "final"),
    [
        ([replace("ab", "a")], lambda text: text.replace("ab", "a")),
        ([replace("ab", "c"), replace("cc", "ab")], lambda t: t.replace("ab", "c").replace("cc", "ab")),
        ([replace("b", ""), strip(1, 1)], lambda text: striped(text.replace("b", ""), 1, 1)),
    ],
)  # fmt: skip
def test_a_row_of_rules_shows_what_is_certain(rules, final):
    make, late_because = row(*rules)
    assert not late_because
    certain = Certain(final, "abc !", 3)
    for n in range(1, 5):
        for letters in itertools.product("abc ", repeat=n):
            stage = make()
            shown = "".join([stage.feed(c) for c in letters])
            assert shown == certain("".join(letters)), letters


def test_no_rules_return_the_text_as_it_is():
    make, late_because = row()
    stage = make()
    assert (stage.feed("a b"), stage.flush(), stage.held, late_because) == ("a b", "", "", "")


def test_a_long_pattern_is_found():
    stage = row(replace("ab" * 32, "x"))[0]()
    assert stage.feed("a" + "ab" * 3) == "a"
    assert stage.feed("c") == "ababab" + "c"


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ([replace("", "x")], "needs the whole text"),
        ([{"type": "ByteLevel"}], "needs the whole text"),
        ([replace("ab" * n, "a") for n in range(1, 9)], "too many states"),
    ],
)
def test_rules_that_are_late_say_why(rules, why):
    make, late_because = row(*rules, clean_up=True)
    assert why in late_because
    assert isinstance(make(), Row)
