"""Somebody else's tokenizer as a stream: by the exact chain where it shows its vocabulary, by a
bounded window where it doesn't.
"""

import random

import pytest
import small_tokenizers

from detok_py import Detokenizer, IncrementalDetokenizer, StreamEndedError, Vocabulary
from detok_py.tokenizers.window import MAX_CONTEXT, MAX_WINDOW


class ByteLevel:
    """Bytes as ids, decoded as a byte-level tokenizer does: an unfinished character is one U+FFFD."""

    longest = 0

    def decode(self, ids):
        self.longest = max(self.longest, len(ids))
        return bytes(ids).decode("utf-8", "replace")

    def encode(self, text):
        return list(text.encode())


class PerByte(ByteLevel):
    """Bytes as ids, decoded as byte fallback is: a run that isn't UTF-8 is one U+FFFD a byte."""

    def decode(self, ids):
        try:
            return bytes(ids).decode()
        except UnicodeDecodeError:
            return "\ufffd" * len(ids)


class Words:
    """Pieces with leading spaces, of which the first of the text is stripped."""

    pieces = [" Hello", " world", "\n", " ", ",", "<s>"]

    def decode(self, ids):
        text = "".join(self.pieces[i] for i in ids if i != 5)
        return text[1:] if text.startswith(" ") else text


def pushed(tokenizer, ids, prompt=(), **settings):
    t = IncrementalDetokenizer(tokenizer, prompt, **settings)
    return [t.push(i) for i in ids] + [t.flush()]


def test_a_character_is_shown_with_its_last_token():
    assert pushed(ByteLevel(), "a🌶é".encode()) == ["a", "", "", "", "🌶", "", "é", ""]


def test_a_prompt_that_ends_inside_a_character_is_not_shown_again():
    assert pushed(ByteLevel(), b"\x8c\xb6!", b"Hello \xf0\x9f") == ["", "🌶", "!", ""]


def test_invalid_bytes_are_shown_once_the_next_character_settles_them():
    assert "".join(pushed(ByteLevel(), b"a\xffb\xe4\xbd")) == "a\ufffdb\ufffd"
    assert "".join(pushed(ByteLevel(), b"\xef\xbf\xbd" * 5)) == "\ufffd" * 5


def test_at_most_one_replacement_character_waits_for_a_byte_level_tokenizer_and_three_for_one_that_is_not_known():
    class Silent:
        decode = ByteLevel.decode
        longest = 0

    for tokenizer, limit in ((ByteLevel(), 1), (Silent(), 3)):
        t = IncrementalDetokenizer(tokenizer)
        for _ in range(49):
            t.push(0xFF)
            assert len(t.held.decode()) <= limit


def test_two_characters_of_bytes_side_by_side_are_whole():
    """The pair that a count of trailing U+FFFD divided by four gets wrong for good."""
    out = pushed(PerByte(), "龜龜กก".encode())
    assert "".join(out) == "龜龜กก"
    assert out[2] == "龜"


def test_a_space_behind_a_newline_is_kept():
    assert pushed(Words(), [0, 2, 1, 3, 1]) == ["Hello", "\n", " world", " ", " world", ""]


def test_a_prompt_gives_the_space_its_context():
    assert pushed(Words(), [1], [0]) == [" world", ""]
    assert pushed(Words(), [1], [0, 5, 5, 5]) == [" world", ""]
    assert pushed(Words(), [1], []) == ["world", ""]


def test_text_that_an_object_takes_back_stays_and_the_rest_follows():
    class CleansUp:
        def decode(self, ids):
            return "".join([" do", " n", "'", "t", " x"][i] for i in ids).replace(" n't", "n't")

    out = "".join(pushed(CleansUp(), [0, 1, 2, 3, 4]))
    assert out.startswith(" do n'")
    assert out.endswith("t x")


@pytest.mark.parametrize("byte", [0xFF, 0x61, 0x80, 0xE4])
def test_the_window_is_bounded_on_any_input(byte):
    tokenizer = ByteLevel()
    t = IncrementalDetokenizer(tokenizer)
    out = "".join([t.push(byte) for _ in range(2000)]) + t.flush()
    assert out == bytes([byte] * 2000).decode("utf-8", "replace")
    assert tokenizer.longest <= MAX_CONTEXT + MAX_WINDOW + 1


def test_the_end_is_the_end():
    t = IncrementalDetokenizer(ByteLevel())
    t.push(0xE4)
    assert (t.flush(), t.flush(), t.held) == ("\ufffd", "", b"")
    with pytest.raises(StreamEndedError):
        t.push(0x61)


def test_any_bytes_through_the_window_give_what_the_object_decodes():
    rng = random.Random(3)
    for _ in range(300):
        ids = [rng.choice(b"a \xe4\xbd\xa0\xf0\x9f\x98\x80\xff") for _ in range(rng.randrange(40))]
        assert "".join(pushed(ByteLevel(), ids)) == ByteLevel().decode(ids)


def test_an_object_that_lies_about_its_vocabulary_is_asked_instead():
    class Liar(ByteLevel):
        vocabulary = Vocabulary.from_bytes([b"x"] * 256)

    t = IncrementalDetokenizer(Liar())
    assert not t.exact
    assert t.push(0x61) == "a"


@pytest.mark.native
@pytest.mark.parametrize("name", ["byte_level", "sentencepiece"])
def test_hugging_face_objects_are_read_and_every_concatenation_is_their_decode(name):
    import json

    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(json.dumps(getattr(small_tokenizers, name)()))
    size = tokenizer.get_vocab_size()
    rng = random.Random(5)
    for skip in (None, True, False):
        settings = {} if skip is None else {"skip_special_tokens": skip}
        for _ in range(150):
            ids = [rng.randrange(size) for _ in range(rng.randrange(1, 25))]
            t = IncrementalDetokenizer(tokenizer, skip_special_tokens=skip)
            assert t.exact
            cut = rng.randrange(len(ids))
            shown = t.feed(ids[:cut])
            rest = pushed(tokenizer, ids[cut:], ids[:cut], skip_special_tokens=skip)
            assert shown + "".join(rest) == tokenizer.decode(ids, **settings)


@pytest.mark.native
def test_a_tiktoken_encoding_is_read():
    import tiktoken

    ranks = {bytes([b]): b for b in range(256)} | {b"he": 256, b"hel": 257, b"\xf0\x9f": 258}
    encoding = tiktoken.Encoding(
        "small", pat_str=r"\w+|\W", mergeable_ranks=ranks, special_tokens={"<|end|>": 300}
    )
    t = IncrementalDetokenizer(encoding)
    assert t.exact
    assert [t.push(i) for i in (257, 258, 0x98, 0x80, 300)] == ["hel", "", "", "😀", "<|end|>"]


@pytest.mark.native
def test_added_tokens_that_come_later_are_seen():
    import json

    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(json.dumps(small_tokenizers.byte_level()))
    assert pushed(tokenizer, [72]) == ["H", ""]
    tokenizer.add_special_tokens(["<|later|>"])
    late = tokenizer.token_to_id("<|later|>")
    assert pushed(tokenizer, [late, 72]) == ["", "H", ""]
    assert pushed(tokenizer, [late], skip_special_tokens=False) == ["<|later|>", ""]


def test_one_push_is_one_push_for_the_chain_too():
    class Ours:
        vocabulary = Vocabulary.from_bytes([bytes([b]) for b in range(256)])

        def decode(self, ids):
            return (
                Detokenizer(self.vocabulary).feed(ids)
                if not ids
                else bytes(ids).decode("utf-8", "replace")
            )

    t = IncrementalDetokenizer(Ours(), [0xF0])
    assert t.exact
    assert [t.push(i) for i in b"\x9f\x98\x80"] == ["", "", "😀"]
