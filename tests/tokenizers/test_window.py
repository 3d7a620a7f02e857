"""Somebody else's tokenizer as a stream: by the exact chain where it shows its vocabulary, by a
bounded window where it doesn't.
"""

import copy
import gc
import json
import random
import sys
import threading
import weakref

import pytest
import small_tokenizers
from laws.oracle import left_out

from detok_py import (
    ChatStream,
    Detokenizer,
    IncrementalDetokenizer,
    StreamEndedError,
    Vocabulary,
    VocabularyError,
)
from detok_py.tokenizers.readable import MAX_KNOWN
from detok_py.tokenizers.window import MAX_CONTEXT, MAX_WINDOW


class ByteLevel:
    """Bytes as ids, decoded as a byte-level tokenizer does: an unfinished character is
    one U+FFFD.
    """

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


class Exact(ByteLevel):
    """Bytes as ids, with a vocabulary."""

    vocabulary = Vocabulary.from_bytes([bytes([b]) for b in range(256)])


def pushed(tokenizer, ids, prompt=(), **settings):
    t = IncrementalDetokenizer(tokenizer, list(prompt), **settings)
    return [t.push(i) for i in ids] + [t.flush()]


class Runs(ByteLevel):
    """Bytes as ids, decoded as Llama 2's are: ASCII as it is, a run of other bytes that isn't UTF-8
    as one U+FFFD a byte.
    """

    encode = None

    def decode(self, ids):
        out, run = "", b""
        for i in [*ids, 0x20]:
            if i >= 0x80:
                run += bytes([i])
                continue
            out += PerByte.decode(self, run) + chr(i)
            run = b""
        return out[:-1]


def hugging_face(*added):
    """Return a byte-level tokenizer of the `tokenizers` library, with these added tokens."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(json.dumps(small_tokenizers.byte_level()))
    tokenizer.add_tokens(list(added))
    return tokenizer


class Counting:
    """A tokenizer that counts the ids it decodes and how often it lists its added tokens."""

    decoded = listed = 0

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __getattr__(self, name):
        return getattr(self.tokenizer, name)

    def decode(self, ids, **options):
        self.decoded += len(ids)
        return self.tokenizer.decode(ids, **options)

    def get_added_tokens_decoder(self):
        self.listed += 1
        return self.tokenizer.get_added_tokens_decoder()


def test_a_character_is_shown_with_its_last_token():
    assert pushed(ByteLevel(), "a🌶é".encode()) == ["a", "", "", "", "🌶", "", "é", ""]


def test_a_prompt_that_ends_inside_a_character_is_not_shown_again():
    assert pushed(ByteLevel(), b"\x8c\xb6!", b"Hello \xf0\x9f") == ["", "🌶", "!", ""]


@pytest.mark.parametrize("tokenizer", [ByteLevel(), Runs()], ids=["byte-level", "runs"])
def test_an_answer_is_what_the_object_decodes_behind_its_prompt_wherever_it_is_cut(tokenizer):
    for text in ("Hi 🚀 ok", "é", "🚀🚀", "世界 🚀x🚀\n", "a\ufffdb \ufffd"):
        ids = list(text.encode())
        for cut in range(len(ids) + 1):
            prompt = ids[:cut]
            out = "".join(pushed(tokenizer, ids[cut:], prompt))
            assert out == left_out(tokenizer.decode(prompt), text), (text, cut)


def test_half_a_character_behind_a_whole_one_is_completed_behind_a_prompt():
    out = pushed(Runs(), [0x9A, 0x80], "🚀".encode() + b"\xf0\x9f")
    assert out == ["", "🚀🚀", ""]


def test_half_a_character_of_a_prompt_that_is_not_completed_is_not_shown_again():
    assert pushed(ByteLevel(), b"x", b"a\xf0\x9f") == ["x", ""]
    assert pushed(ByteLevel(), b"", b"a\xf0\x9f") == [""]


@pytest.mark.parametrize(
    "tokenizer", [ByteLevel(), Words(), Exact()], ids=["bytes", "words", "exact"]
)
def test_a_stream_can_be_copied_reset_saved_and_rolled_back(tokenizer):
    t = IncrementalDetokenizer(tokenizer, [0, 2])
    mark = t.mark()
    shown = t.feed([1, 4])
    fork = copy.copy(t)
    state = json.loads(json.dumps(t.save()))
    rest = [t.push(3), t.push(1), t.flush()]
    assert [fork.push(3), fork.push(1), fork.flush()] == rest
    t.load(state)
    assert [t.push(3), t.push(1), t.flush()] == rest
    assert t.rollback(mark) == len(shown + "".join(rest))
    assert t.feed([1, 4]) == shown
    t.reset([0, 2])
    assert t.feed([1, 4, 3, 1]) + t.flush() == shown + "".join(rest)
    with pytest.raises(ValueError, match="ahead"):
        IncrementalDetokenizer(tokenizer).rollback(t.mark())


def test_a_chat_stream_takes_a_stream_of_somebody_elses_ids():
    for tokenizer in (ByteLevel(), Exact()):
        c = ChatStream(IncrementalDetokenizer(tokenizer), stop=["."])
        assert c.feed(list(b"<think>a</think>b")) == [("reasoning", "a"), ("content", "b")]
        fork, mark = c.copy(), c.mark()
        assert c.feed(list("é!".encode())) == [("content", "é!")]
        assert c.rollback(mark) == {"content": 2}
        assert fork.feed(list(b"c.d")) == c.feed(list(b"c.d")) == [("content", "c")]
        c.reset(b"\xf0\x9f")
        assert c.feed(list(b"\x9a\x80")) == [("content", "🚀")]


def test_byte_tokens_can_be_shown_one_character_at_a_time():
    pieces = ["<0xF0>", "<0x9F>", "<0x9A>", "<0x80>", "x"]

    class Ours:
        vocabulary = Vocabulary.from_pieces(pieces, {"type": "ByteFallback"})

        def decode(self, ids):
            t = Detokenizer(self.vocabulary, byte_fallback="hf")
            return t.feed(ids) + t.flush()

    ids = [0, 1, 2, 3, 0, 1, 2, 3, 4]
    assert pushed(Ours(), ids) == [*[""] * 8, "🚀🚀x", ""]
    assert pushed(Ours(), ids, byte_fallback="utf8") == [*["", "", "", "🚀"] * 2, "x", ""]
    with pytest.raises(ValueError, match="llama"):
        IncrementalDetokenizer(Ours(), byte_fallback="llama")


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


def test_the_window_is_bounded_behind_a_prompt_without_text():
    tokenizer = ByteLevel()
    t = IncrementalDetokenizer(tokenizer, [0x80] * 40)
    assert "".join([t.push(0x80) for _ in range(300)]) + t.flush() == "\ufffd" * 300
    assert tokenizer.longest <= MAX_CONTEXT + 1


def test_the_window_begins_anew_behind_each_whole_character():
    tokenizer = ByteLevel()
    assert "".join(pushed(tokenizer, ("hé" * 50).encode())) == "hé" * 50
    assert tokenizer.longest == 4  # two bytes behind the two of the last character


def test_a_prompt_gives_the_window_its_last_two_tokens_and_no_more():
    tokenizer = ByteLevel()
    t = IncrementalDetokenizer(tokenizer, list("xyz…".encode()))
    tokenizer.longest = 0
    assert t.push(0x21) == "!"
    assert tokenizer.longest == 5  # "z", which has text by itself, the three bytes of "…", and "!"


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
            known, whole = (tokenizer.decode(part, **settings) for part in (ids[:cut], ids))
            assert t.feed(ids[:cut]) + t.flush() == known
            t.reset(ids[:cut])
            assert t.feed(ids[cut:]) + t.flush() == left_out(known, whole)


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
    tokenizer = hugging_face()
    assert pushed(tokenizer, [72]) == ["H", ""]
    tokenizer.add_special_tokens(["<|later|>"])
    late = tokenizer.token_to_id("<|later|>")
    assert pushed(tokenizer, [late, 72]) == ["", "H", ""]
    assert pushed(tokenizer, [late], skip_special_tokens=False) == ["<|later|>", ""]


@pytest.mark.native
def test_an_object_with_a_decoder_written_in_python_is_asked():
    from tokenizers import decoders

    class Louder:
        def decode_chain(self, tokens):
            return [token.upper() for token in tokens]

    tokenizer = hugging_face()
    tokenizer.decoder = decoders.Decoder.custom(Louder())
    ids = [tokenizer.token_to_id(letter) for letter in "dog"]
    assert pushed(tokenizer, ids) == ["D", "O", "G", ""]


@pytest.mark.native
def test_a_token_that_comes_later_has_no_text_if_the_object_decodes_otherwise_by_then():
    from tokenizers import decoders

    for decoder in (decoders.Fuse(), decoders.Decoder.custom(object())):
        tokenizer = hugging_face()
        t = IncrementalDetokenizer(tokenizer)
        tokenizer.add_tokens(["later"])
        tokenizer.decoder = decoder
        assert [t.push(72), t.push(tokenizer.token_to_id("later"))] == ["H", ""]


@pytest.mark.native
@pytest.mark.parametrize("count", [3, 2000])
def test_what_becomes_special_later_is_special_for_the_next_stream(count):
    tokenizer = hugging_face(*[f"<{i}>" for i in range(count)])
    one = tokenizer.token_to_id("<1>")
    assert pushed(tokenizer, [one]) == ["<1>", ""]
    tokenizer.add_special_tokens(["<1>"])
    assert pushed(tokenizer, [one]) == ["", ""]


@pytest.mark.native
def test_of_many_tokens_one_that_was_not_asked_for_is_special_at_once():
    tokenizer = hugging_face(*[f"<{i}>" for i in range(2000)])
    one, two = tokenizer.token_to_id("<1001>"), tokenizer.token_to_id("<1003>")
    t = IncrementalDetokenizer(tokenizer)
    shown = IncrementalDetokenizer(tokenizer, skip_special_tokens=False)
    assert t.push(two) == shown.push(two) == "<1003>"
    tokenizer.add_special_tokens(["<1001>"])
    assert [t.push(i) for i in (one, 72, one)] == ["", "H", ""]
    assert shown.push(one) == "<1001>"
    assert pushed(tokenizer, [one, two]) == ["", "<1003>", ""]


@pytest.mark.native
def test_a_stream_does_not_list_and_decode_thousands_of_added_tokens_again():
    """Gemma 3 has 6,165, which take 2 ms."""
    counting = Counting(hugging_face(*[f"<{i}>" for i in range(6000)]))
    assert pushed(counting, [72]) == ["H", ""]
    for _ in range(4):
        counting.decoded = 0
        assert pushed(counting, [72]) == ["H", ""]
        assert counting.decoded < 1000
    assert counting.listed == 1


def test_threads_share_more_objects_than_are_remembered():
    tokenizers = [Exact() for _ in range(2 * MAX_KNOWN)]
    texts, failures = [], []

    def work(seed):
        rng = random.Random(seed)
        try:
            for _ in range(150):
                texts.append("".join(pushed(rng.choice(tokenizers), "né".encode())))
        except Exception as error:
            failures.append(error)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    assert failures == []
    assert texts == ["né"] * 1200


class Sized(ByteLevel):
    """Bytes as ids; `meanwhile` is run by another thread where the vocabulary's size is compared
    with what it was, which is between finding what is remembered and using it.
    """

    meanwhile = None

    @property
    def n_vocab(self):
        """Another object each time, so that it is compared."""
        size = Size(256)
        size.of = self
        return size

    def decode_single_token_bytes(self, token_id):
        return bytes([token_id])


class Size(int):
    def __eq__(self, other):
        work, self.of.meanwhile = self.of.meanwhile, None
        if work is not None:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        return int(self) == int(other)

    __hash__ = int.__hash__

    def __ne__(self, other):
        return not self == other


def test_what_another_thread_forgets_meanwhile_is_read_again():
    tokenizer, others = Sized(), [Exact() for _ in range(MAX_KNOWN)]
    assert pushed(tokenizer, [97]) == ["a", ""]
    tokenizer.meanwhile = lambda: [pushed(other, [97]) for other in others]
    assert pushed(tokenizer, [97]) == ["a", ""]
    assert tokenizer.meanwhile is None


def test_an_object_is_forgotten_once_as_many_others_have_come_as_are_remembered():
    tokenizers = [Exact() for _ in range(MAX_KNOWN + 1)]
    first = weakref.ref(tokenizers[0])
    for tokenizer in tokenizers:
        assert pushed(tokenizer, [97]) == ["a", ""]
    del tokenizers[0]
    gc.collect()
    assert first() is None


@pytest.mark.parametrize("tokenizer", [ByteLevel(), Exact()], ids=["window", "exact"])
def test_a_refused_id_refuses_all_that_came_with_it(tokenizer):
    t = IncrementalDetokenizer(tokenizer)
    for wrong in (1.0, None, "a", [1]):
        with pytest.raises(VocabularyError, match="a token id is an integer"):
            t.feed([0x61, wrong])
        with pytest.raises(VocabularyError, match="a token id is an integer"):
            t.push(wrong)
    for wrong in (b"a", 5, None):
        with pytest.raises(TypeError, match="a list of token ids, not"):
            t.feed(wrong)
    with pytest.raises(TypeError, match="prompt_ids is a list of token ids, not bytes"):
        IncrementalDetokenizer(tokenizer, b"a")
    assert t.feed([0x62]) + t.flush() == "b"


def test_one_push_is_one_push_for_the_chain_too():
    t = IncrementalDetokenizer(Exact(), [0xF0])
    assert t.exact
    assert [t.push(i) for i in b"\x9f\x98\x80"] == ["", "", "😀"]
