"""Public objects say what they hold, are the containers that they look like, and refuse a wrong
argument where it is given.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_tokenizers import FAMILIES, byte_level, gguf, gpt2_values, llama_values, tekken

import detok_py as d

VOCABULARY = d.Vocabulary.from_bytes([b"a", None, b"\xc3", b"<eos>"], special_ids=[3], eos_ids=[3])
TOKENIZER = d.load_tokenizer(byte_level())


class Letters:
    def decode(self, ids):
        return bytes(ids).decode("utf-8", "replace")


def stream():
    t = d.Detokenizer(VOCABULARY)
    t.push(2)
    return t


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: VOCABULARY, ["Vocabulary", "4 tokens", "1 special"]),
        (lambda: d.ByteVocabulary(), ["ByteVocabulary", "256 tokens"]),
        (lambda: TOKENIZER, ["Tokenizer", "byte_bpe", "280 tokens", "[278]"]),
        (stream, ["Detokenizer", "4 tokens", r"b'\xc3'"]),
        (lambda: d.StreamingDetokenizer("strict"), ["StreamingDetokenizer", "strict", "b''"]),
        (lambda: d.StopStrings(["STOP"]), ["StopStrings", "STOP", "''", "None"]),
        (lambda: d.ChatStream(stream()), ["ChatStream", "content", "0 tokens", "<Detokenizer"]),
        (lambda: d.IncrementalDetokenizer(Letters()), ["IncrementalDetokenizer", "late", "b''"]),
        (lambda: d.IncrementalDetokenizer(TOKENIZER), ["IncrementalDetokenizer", "exact"]),
    ],
)
def test_repr_says_what_an_object_holds(made, says):
    for part in says:
        assert part in repr(made())


@given(st.lists(st.none() | st.binary(max_size=3), max_size=8))
def test_a_vocabulary_is_a_container_of_ids(tokens):
    v = d.Vocabulary.from_bytes(tokens)
    ids = [i for i, token in enumerate(tokens) if token is not None]
    assert list(v) == ids
    assert {i: v[i] for i in v} == {i: tokens[i] for i in ids}
    assert [i in v for i in range(-1, len(v) + 1)] == [i in ids for i in range(-1, len(v) + 1)]
    assert len(v) == len(tokens)
    for i in {-1, len(v), *range(len(v))} - set(ids):
        with pytest.raises(d.VocabularyError):
            v[i]
    same = d.Vocabulary.unpack(v.pack())
    assert same == v == v.with_eos_ids([])
    assert hash(same) == hash(v)
    assert v != d.Vocabulary.from_bytes([*tokens, b"x"])
    assert v != tokens


@pytest.mark.parametrize(
    "document", [make() for make in FAMILIES.values()] + [tekken()], ids=[*FAMILIES, "tekken"]
)
def test_a_tokenizer_names_its_tokens_and_finds_them(document):
    tokenizer = d.load_tokenizer(document)
    assert len(tokenizer) == len(tokenizer.vocabulary)
    for i in tokenizer.vocabulary:
        piece = tokenizer.id_to_token(i)
        if piece is not None:
            first = tokenizer.token_to_id(piece)
            assert first <= i
            assert tokenizer.id_to_token(first) == piece
    assert tokenizer.id_to_token(10**6) is None
    assert tokenizer.token_to_id("no such token") is None


@pytest.mark.native
@pytest.mark.parametrize("family", FAMILIES)
def test_a_tokenizer_names_its_tokens_as_the_library_does(family):
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    import json

    document = FAMILIES[family]()
    theirs, ours = tokenizers.Tokenizer.from_str(json.dumps(document)), d.load_tokenizer(document)
    for i in range(len(ours) + 2):
        assert ours.id_to_token(i) == theirs.id_to_token(i)
    for token in [*theirs.get_vocab(), "no such token"]:
        assert ours.token_to_id(token) == theirs.token_to_id(token)


def test_a_tokenizer_knows_what_begins_a_text():
    assert TOKENIZER.bos_id is None
    assert d.load_tokenizer(FAMILIES["sentencepiece"]()).bos_id == 1
    assert d.load_tokenizer(gguf(llama_values())).bos_id == 1
    assert d.load_tokenizer(gguf(gpt2_values())).bos_id is None
    assert d.load_tokenizer(tekken()).bos_id == 1
    import json

    files = {"tokenizer.json": byte_level(), "config.json": {"bos_token_id": 7}}
    contents = {name: json.dumps(document).encode() for name, document in files.items()}
    assert d.load_tokenizer(contents).bos_id == 7


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: d.Detokenizer(TOKENIZER), TypeError, "a Vocabulary, not Tokenizer"),
        (lambda: d.Detokenizer(None), TypeError, "a Vocabulary, not NoneType"),
        (lambda: d.Detokenizer(VOCABULARY, None), TypeError, "prompt_ids is a list of token ids"),
        (lambda: d.Detokenizer(VOCABULARY, 5), TypeError, "not 5"),
        (lambda: d.Detokenizer(VOCABULARY, "ab"), d.VocabularyError, "an integer, not 'a'"),
        (lambda: d.ChatStream(None), TypeError, "reads from a detokenizer, not NoneType"),
        (lambda: d.ChatStream(TOKENIZER), TypeError, "tokenizer.detokenizer()"),
        (lambda: d.ChatStream(stream(), stop=b"x"), TypeError, "must be a str, not b'x'"),
        (lambda: d.ChatStream(stream(), stop_ids="ab"), d.VocabularyError, "not 'a'"),
        (lambda: d.ChatStream(stream(), stop_ids=5), TypeError, "stop_ids is a list"),
        (lambda: d.ChatStream(stream(), eos_ids=5), TypeError, "eos_ids is a list"),
        (lambda: d.ChatStream(stream()).push([0]), d.VocabularyError, "not [0]"),
        (lambda: d.StopStrings(b"x"), TypeError, "must be a str, not b'x'"),
        (lambda: d.last_complete_utf8_end("aé"), TypeError, "takes bytes, not str"),
        (lambda: d.Vocabulary.from_bytes([b"a"], 0), TypeError, "special_ids is a list"),
        (lambda: "a" in VOCABULARY, d.VocabularyError, "not 'a'"),
    ],
)
def test_a_wrong_argument_is_refused_where_it_is_given_in_one_sentence(call, error, says):
    with pytest.raises(error, match=re.escape(says)) as refused:
        call()
    assert "\n" not in str(refused.value)


def holding():
    """Give streams of every public class that hold something, and what they hold."""
    from detok_py.integrations.openai import TextStage

    halved = d.StreamingDetokenizer()
    yield halved, halved.feed(b"a\xf0\x9f"), ("", b"\xf0\x9f")
    yield (t := stream()), "", ("", b"\xc3")
    cleaned = d.Vocabulary.from_pieces(["Ġ", "Ã"], {"type": "ByteLevel"}, clean_up=True)
    # Where errors are ignored, half a character may turn out to be nothing: it refutes nothing.
    t = d.Detokenizer(cleaned, errors="ignore")
    yield t, t.feed([0, 1]), (" ", b"\xc3")
    t = d.IncrementalDetokenizer(Letters())
    yield t, t.push(0xC3), ("\ufffd", b"")
    t = d.IncrementalDetokenizer(TOKENIZER)
    yield t, t.push(0xC3), ("", TOKENIZER.vocabulary.token_bytes(0xC3))
    stops = d.StopStrings(["STOP"])
    yield stops, stops.feed("a ST"), ("ST", b"")
    chat = d.ChatStream(d.StreamingDetokenizer(errors="ignore"), stop=["STOP"])
    yield chat, chat.feed(b"<think>a</th\xc3"), ("</th", b"\xc3")
    chat = d.ChatStream(d.StreamingDetokenizer(), stop=["STOP"])
    yield chat, chat.feed(b"ST"), ("ST", b"")
    chat = d.ChatStream(d.Detokenizer(cleaned, errors="ignore"), reasoning=None)
    yield chat, chat.feed([0, 1]), (" ", b"\xc3")
    text = TextStage()
    yield text, text.feed("a\ud83d"), ("\ud83d", b"")


@pytest.mark.native  # with the text of openai's chunks
def test_what_is_held_has_the_same_two_names_everywhere():
    for stage, _, held in holding():
        assert (stage.held_text, stage.held_bytes) == held, stage
        copy = stage.copy()
        assert (copy.held_text, copy.held_bytes) == held
        stage.flush()
        assert (stage.held_text, stage.held_bytes) == ("", b"")


@pytest.mark.native  # with the text of openai's chunks
def test_what_is_held_by_a_decoder_is_bytes_as_a_whole():
    for stage, _, (text, data) in holding():
        if isinstance(stage, (d.StreamingDetokenizer, d.Detokenizer, d.IncrementalDetokenizer)):
            assert stage.held == text.encode() + data


def test_a_stop_is_included_by_the_name_that_a_chat_stream_has():
    for options in ({"include_stop": True}, {"include": True}):
        st = d.StopStrings(["STOP"], **options)
        assert (st.feed("a STOP b"), st.stopped, st.copy().feed("c")) == ("a STOP", "STOP", "")
    assert d.StopStrings(["STOP"], True).include_stop
