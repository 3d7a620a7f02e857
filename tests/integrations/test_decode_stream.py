"""DecodeStream, beside the class of the package tokenizers whose place it takes."""

import copy
import functools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_tokenizers import FAMILIES

from detok_py import VocabularyError, load_tokenizer
from detok_py.integrations.tokenizers import DecodeStream

pytestmark = pytest.mark.native

IDS = st.lists(st.integers(0, 18) | st.integers(0, 275), max_size=10)
TEXTS = st.lists(
    st.sampled_from(["the", " cat", "and ", "é", "你", "😀", " ", "'s", "a.", "\n"]), max_size=6
).map("".join)


@functools.cache
def rust(family):
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    return tokenizers.Tokenizer.from_str(json.dumps(FAMILIES[family]()))


def known(tokenizer, ids):
    return [i for i in ids if tokenizer.id_to_token(i) is not None]


def made_of(pieces, decoder, special=()):
    """Return a tokenizer of the package whose id i is `pieces[i]`."""
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    vocab = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, []))
    tokenizer.add_special_tokens(list(special))
    tokenizer.decoder = decoder and getattr(tokenizers.decoders, decoder)()
    return tokenizer


def both():
    real = pytest.importorskip("tokenizers.decoders", reason="tokenizers is not installed")
    return real.DecodeStream, DecodeStream


WORDS = (["my", "name", "is", "john"], None)
FALLBACK = (["<unk>", "<0x20>", "<0xC3>", "<0xA9>", "x"], "ByteFallback")
METASPACE = (["<unk>", "▁This"], "Metaspace")
HALVES = (["à¸", "Ń", "±", "I", "'m"], "ByteLevel")  # E0 B8, AD, B1: two Thai characters


@pytest.mark.parametrize(
    ("pieces", "prompt", "steps", "texts"),
    [
        # What the tests of the package's own DecodeStream expect (bindings/python/tests, 0.23).
        (WORDS, [], [0, 1, 2, 3], ["my", " name", " is", " john"]),
        (WORDS, [0, 1, 2], [3], [" john"]),
        (FALLBACK, [], [1, 2, 3], [" ", None, "é"]),
        (METASPACE, [], [1, 1], ["This", " This"]),
        (HALVES, [], [[0], [1], [0], [2]], [None, "อ", None, "ั"]),
        (HALVES, [], [[0, 1, 0, 2]], ["อั"]),
        (HALVES, [], [[0], [1, 0, 2]], [None, "อั"]),
        (HALVES, [], [[0], [1], [0, 2]], [None, "อ", "ั"]),
        (HALVES, [3], [[4, 3, 3, 3]], ["'mIII"]),
        (HALVES, [3], [4], ["'m"]),
        # More of the same kinds.
        (WORDS, (0, 1), [(2,), (3,)], [" is", " john"]),
        (FALLBACK, [4], [2, 3, 2, 3], [None, "é", None, "é"]),
        (FALLBACK, [2], [3, 4], ["é", "x"]),
        (FALLBACK, [], [[2, 2, 4], [2, 3]], ["\ufffd\ufffdx", "é"]),
    ],
)
@pytest.mark.parametrize("kind", ["theirs", "ours"])
def test_each_step_gives_what_the_package_expects(kind, pieces, prompt, steps, texts):
    theirs, ours = both()
    stream = (theirs if kind == "theirs" else ours)(prompt)
    tokenizer = made_of(*pieces)
    assert [stream.step(tokenizer, ids) for ids in steps] == texts


def test_the_text_of_a_prompt_is_not_shown_again_if_it_ends_inside_a_character():
    """The one assertion of the package's tests that differs: it shows all of such a prompt."""
    theirs, ours = both()
    tokenizer = made_of(*HALVES)
    prompt = [3, 4, 3, 0, 1, 0]
    assert theirs(prompt).step(tokenizer, 2) == "I'mIอั"
    assert ours(prompt).step(tokenizer, 2) == "ั"


def stands_for(shown, whole):
    """Return whether `shown` is `whole`, but for characters of byte runs that turned bad later:
    they stand in the place of as many U+FFFD as they have bytes.
    """
    at = 0
    for character in shown:
        bad = "\ufffd" * len(character.encode())
        at += 1 if whole[at : at + 1] == character else len(bad) if whole.startswith(bad, at) else 0
    return at == len(whole)


@pytest.mark.parametrize("family", FAMILIES)
def test_decode_stream_gives_the_text_of_decode(family):
    tokenizer = rust(family)

    @given(IDS, st.booleans())
    def check(ids, skip):
        ids = known(tokenizer, ids)
        stream = DecodeStream([], skip)
        texts = [stream.step(tokenizer, i) for i in ids] + [stream.flush()]
        assert "" not in texts
        wholes = [tokenizer.decode(ids[:n], skip_special_tokens=skip) for n in range(len(ids) + 1)]
        joined = "".join(text or "" for text in texts)
        shown = [whole for whole in wholes if not whole.endswith("\ufffd")]
        if all(wholes[-1].startswith(whole) for whole in shown):
            assert joined == wholes[-1]
        else:
            assert stands_for(joined, wholes[-1])
        whole = DecodeStream(skip_special_tokens=skip)
        assert (whole.step(tokenizer, ids) or "") + (whole.flush() or "") == wholes[-1]

    check()


@pytest.mark.parametrize("family", FAMILIES)
def test_no_step_shows_less_than_the_real_one(family):
    tokenizer = rust(family)
    theirs, ours = both()

    @given(IDS, IDS, st.booleans(), st.integers(1, 4))
    def check(prompt, ids, skip, size):
        prompt, ids = known(tokenizer, prompt), known(tokenizer, ids)
        before = tokenizer.decode(prompt, skip_special_tokens=skip)
        real, mine = theirs(prompt, skip), ours(prompt, skip)
        shown, own = before, before
        for at in range(0, len(ids), size):
            part = ids[at : at + size]
            try:
                shown += real.step(tokenizer, part) or ""
            except Exception:  # it has no class for "Invalid prefix"
                return
            own += mine.step(tokenizer, part) or ""
            whole = tokenizer.decode(prompt + ids[: at + size], skip_special_tokens=skip)
            if not whole.startswith(shown):
                return  # the real one is wrong from here on: it lost a space, say
            assert own.startswith(shown)

    check()


def test_the_characters_of_a_byte_run_that_turns_bad_stay_and_its_other_bytes_follow():
    tokenizer = made_of(*FALLBACK)
    stream = DecodeStream()
    assert [stream.step(tokenizer, i) for i in (2, 3, 2, 4)] == [None, "é", None, "\ufffdx"]
    stream = DecodeStream()
    assert [stream.step(tokenizer, i) for i in (2, 3, 3, 4)] == [None, "é", "\ufffd", "x"]
    stream = DecodeStream()
    assert [stream.step(tokenizer, i) for i in (2, 3, 2)] == [None, "é", None]
    assert (stream.flush(), stream.flush()) == ("\ufffd", None)


def test_a_program_without_flush_gets_the_last_character_of_byte_tokens():
    tokenizer = made_of(["▁Hi", "▁", *[f"<0x{b:02X}>" for b in "😀".encode()]], "ByteFallback")
    theirs, ours = both()
    expected = ["▁Hi", "▁", None, None, None, "😀"]
    for kind in (theirs, ours):
        stream = kind()
        assert [stream.step(tokenizer, i) for i in range(6)] == expected


@given(IDS, IDS, st.sampled_from(sorted(FAMILIES)), st.sampled_from([copy.copy, copy.deepcopy]))
def test_a_copy_goes_on_by_itself(first, then, family, copied):
    tokenizer = rust(family)
    first, then = known(tokenizer, first), known(tokenizer, then)
    stream, alone = DecodeStream([5]), DecodeStream([5])
    for i in first:
        assert stream.step(tokenizer, i) == alone.step(tokenizer, i)
    fork = copied(stream)
    rest = [alone.step(tokenizer, i) for i in then] + [alone.flush()]
    for one in (fork, stream):
        assert [one.step(tokenizer, i) for i in then] + [one.flush()] == rest


def test_a_token_that_is_added_after_the_first_step_has_text():
    theirs, ours = both()
    for skip in (False, True):
        joined = []
        for stream in (theirs(None, skip), ours(None, skip)):
            tokenizer = rust.__wrapped__("byte_bpe")
            texts = [stream.step(tokenizer, [72, 0xE4])]
            size = tokenizer.get_vocab_size()
            tokenizer.add_tokens(["later"])
            tokenizer.add_special_tokens(["<|later|>"])
            texts += [stream.step(tokenizer, i) for i in (size, size + 1, 73, size + 9)]
            joined.append("".join(text or "" for text in texts))
        assert joined[0] == joined[1] == "H\ufffdlater" + "<|later|>" * (not skip) + "I"


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_a_step_takes_any_sequence_of_ids(kind):
    tokenizer = load_tokenizer(FAMILIES["byte_bpe"]())
    stream = DecodeStream(kind(tokenizer.encode("a ")))
    assert stream.step(tokenizer, kind(tokenizer.encode("the cat"))) == "the cat"
    assert stream.step(tokenizer, kind([])) is None


def test_what_is_no_id_is_refused_and_changes_nothing():
    tokenizer = load_tokenizer(FAMILIES["byte_bpe"]())
    stream = DecodeStream()
    for wrong in (1.0, None, "a", b"a", [1.0], [0xC3, None]):
        with pytest.raises((TypeError, VocabularyError)):
            stream.step(tokenizer, wrong)
    assert stream.step(tokenizer, tokenizer.encode("é")) == "é"


def test_a_decode_stream_belongs_to_one_tokenizer():
    one, other = load_tokenizer(FAMILIES["byte_bpe"]()), load_tokenizer(FAMILIES["unigram"]())
    stream = DecodeStream()
    assert stream.flush() is None
    stream.step(one, 5)
    with pytest.raises(ValueError, match="one tokenizer"):
        stream.step(other, 5)
