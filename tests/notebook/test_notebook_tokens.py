"""What a notebook shows of tokens, vocabularies and streams: each byte with what became of it."""

import html.parser
import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_tokenizers import byte_level

import detok_py as d
from detok_py.notebook.player import read

pytestmark = pytest.mark.native  # the wheel of a page does not have it

TOKENIZER = d.load_tokenizer(byte_level())


def states(chunks):
    return [token.states for token in d.TokenList(None, chunks)]


@pytest.mark.parametrize(
    ("chunks", "wanted"),
    [
        ([b"a\xc3", b"\xa9b"], ["ch", "cc"]),
        ([b"\xf0", b"\x9f\x98", b"\x80"], ["h", "hh", "c"]),
        ([b"\xf0\x9f", b"a"], ["rr", "c"]),
        ([b"\xf0\x9f"], ["rr"]),
        ([b"a\xff\xed\xa0\x80"], ["crrrr"]),
        (["\ufffd".encode()], ["ccc"]),  # a genuine one
        (["\ufffd".encode()[:1], "\ufffd".encode()[1:]], ["h", "cc"]),
        ([b"", b"a"], ["", "c"]),
    ],
)
def test_a_byte_is_complete_or_has_waited_or_was_replaced(chunks, wanted):
    assert states(chunks) == wanted


@given(st.binary(max_size=12), st.integers(0, 99))
def test_any_chunking_gives_the_same_text_and_replaces_the_same_bytes(data, seed):
    cuts = sorted(random.Random(seed).sample(range(len(data) + 1), min(4, len(data) + 1)))
    chunks = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)])]
    tokens = d.TokenList(None, chunks)
    whole = d.TokenList(None, [data])
    assert tokens.text == whole.text == data.decode("utf-8", "replace")
    assert "".join(states(chunks)).replace("h", "c") == "".join(states([data])).replace("h", "c")
    assert all(len(token.states) == len(token.data) for token in tokens)


def test_the_tokens_of_a_text_have_their_ids_and_what_each_made_certain():
    tokens = d.TokenList(TOKENIZER, "naïve 👩‍🚀")
    assert [token.id for token in tokens] == TOKENIZER.encode("naïve 👩‍🚀")
    assert tokens.text == "naïve 👩‍🚀"
    assert any("h" in token.states for token in tokens)
    assert tokens[0].text == "n"
    assert tokens[:2] == list(tokens)[:2]


def test_a_special_token_that_is_left_out_has_its_name():
    (eos,) = TOKENIZER.eos_ids
    *_, last = d.TokenList(TOKENIZER, [*TOKENIZER.encode("a"), eos])
    assert (last.text, last.name) == ("", TOKENIZER.id_to_token(eos))


def test_a_character_may_be_split_by_a_special_token_that_is_left_out():
    (eos,) = TOKENIZER.eos_ids
    first, second = TOKENIZER.encode("é") if len(TOKENIZER.encode("é")) == 2 else (0xC3, 0xA9)
    tokens = d.TokenList(TOKENIZER, [first, eos, second])
    assert tokens.text == TOKENIZER.decode([first, eos, second])
    assert [len(token.states) for token in tokens] == [len(token.data) for token in tokens]


def test_a_list_grows_as_a_stream_does():
    tokens = d.TokenList(None)
    assert tokens.add(b"\xc3").states == "h"
    assert tokens.text == ""
    tokens.add(b"\xa9")
    assert (tokens.text, tokens[0].states, tokens[1].states) == ("é", "h", "c")
    tokens.add(b"\xf0")
    assert tokens.flush() == "\ufffd"
    assert (tokens.text, tokens[2].states, tokens.flush()) == ("é\ufffd", "r", "")
    with pytest.raises(d.StreamEndedError):
        tokens.add(b"a")


def test_bytes_may_follow_ids_and_complete_the_character_that_is_held():
    tokens = d.TokenList(d.Vocabulary.from_bytes([b"a\xc3", b"b"]))
    tokens.add(0)
    assert tokens.add(b"\xa9!").text == "é!"
    assert (tokens.text, [token.states for token in tokens]) == ("aé!", ["ch", "cc"])
    with pytest.raises(TypeError, match="takes bytes, not 1"):
        tokens.add(1)
    tokens.flush()
    with pytest.raises(d.StreamEndedError):
        tokens.add(b"c")


class Player:
    """What `read` writes to. As traitlets do, it compares what is set with what was."""

    def __init__(self, tokens):
        self.sent = []
        self.tokens, self.batch, self.rows, self.state = tokens, [0, []], [], "streaming"

    def __setattr__(self, name, value):
        if name == "batch" and value != getattr(self, name, None):
            self.sent.append(json.loads(json.dumps(value)))
        super().__setattr__(name, value)


async def test_a_page_gets_the_rows_that_the_end_of_a_stream_has_changed():
    async def stream():
        yield b"ok \xf0\x9f"

    player = Player(d.TokenList(None))
    await read(stream(), player)
    states = [[row[2:4] for row in rows] for _, rows in player.sent if rows]
    assert states == [[["ccchh", "ok "]], [["cccrr", "ok \ufffd"]]]
    assert (player.rows, player.state) == (player.sent[-1][1], "finished")


@pytest.mark.parametrize(
    ("source", "given", "says"),
    [
        (None, "text", "a text needs a tokenizer"),
        (TOKENIZER.vocabulary, "text", "a text needs a tokenizer"),
        (None, [1], "takes bytes, not 1"),
    ],
)
def test_what_does_not_fit_the_source_is_refused_in_one_sentence(source, given, says):
    with pytest.raises(TypeError, match=re.escape(says)):
        d.TokenList(source, given)


class Seen(html.parser.HTMLParser):
    """The text of HTML, and whether its tags are closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text = [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "style")
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def held():
    stream = d.StreamingDetokenizer()
    stream.feed(b"a\xf0\x9f")
    return stream


def waiting():
    chat = d.ChatStream(d.StreamingDetokenizer(), stop=["<b>"])
    chat.feed(b"a<")
    return chat


@pytest.mark.parametrize(
    ("thing", "says"),
    [
        (lambda: d.TokenList(None, [b"<b>\xc3", b"\xa9\xff"]), ["2 tokens", "1 with damage", "c3◧h", "ff✕r", "62■c", "<b>é"]),
        (lambda: TOKENIZER, ["byte_bpe", "begin or end inside a character"]),
        (lambda: TOKENIZER.vocabulary, [f"{len(TOKENIZER.vocabulary):,}", "special tokens"]),
        (lambda: d.ByteVocabulary(), ["256", "128"]),
        (held, ["f0◧h", "9f◧h"]),
        (waiting, ["text held", "<"]),
        (lambda: TOKENIZER.detokenizer(), ["Detokenizer", "none"]),
        (lambda: d.IncrementalDetokenizer(TOKENIZER), ["IncrementalDetokenizer"]),
        (lambda: d.StopStrings(["<b>"]), ["StopStrings", "<b>"]),
    ],
)  # fmt: skip
def test_a_notebook_shows_what_an_object_holds(thing, says):
    seen = Seen(thing()._repr_html_())
    for part in says:
        assert part in seen.text, seen.text


def test_a_long_list_is_shown_in_part():
    seen = Seen(d.TokenList(d.ByteVocabulary(), [97] * 1000)._repr_html_())
    assert seen.text.count("■c") == 401  # and once in the legend
    assert "and 600 more" in seen.text
