"""`tok.stream`: the text of iterables and async iterables, in any chunking."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_tokenizers import byte_level, sentencepiece
from waiting import arriving

from detok_py import VocabularyError, load_tokenizer

TOKENIZERS = [load_tokenizer(byte_level()), load_tokenizer(sentencepiece())]


def cut(items, sizes):
    """Return lists of the items, of these sizes, and one for the rest."""
    out, at = [], 0
    for size in sizes:
        out.append(items[at : at + size])
        at += size
    return [*out, items[at:]]


async def collected(stream):
    return [text async for text in stream]


IDS = st.lists(st.integers(3, 270), max_size=12)


@given(st.sampled_from(TOKENIZERS), IDS, IDS, st.lists(st.integers(0, 4), max_size=5))
def test_any_chunks_of_ids_give_the_text_of_a_detokenizer(tokenizer, prompt, ids, sizes):
    t = tokenizer.detokenizer(prompt)
    pushed = [t.push(i) for i in ids] + [t.flush()]
    assert list(tokenizer.stream(ids, prompt)) == [text for text in pushed if text]
    chunks = cut(ids, sizes)
    for source in (chunks, map(tuple, chunks), (iter(chunk) for chunk in chunks)):
        texts = list(tokenizer.stream(source, prompt))
        assert "".join(texts) == "".join(pushed)
        assert "" not in texts


@given(st.binary(max_size=12), st.lists(st.integers(0, 4), max_size=5))
def test_bytes_are_decoded_as_bytes(data, sizes):
    tokenizer, chunks = TOKENIZERS[0], cut(data, sizes)
    expected = data.decode("utf-8", "replace")
    assert "".join(tokenizer.stream(data)) == expected
    assert "".join(tokenizer.stream(chunks)) == expected
    assert "".join(tokenizer.stream(map(bytearray, chunks), errors="ignore")) == data.decode(
        "utf-8", "ignore"
    )


@pytest.mark.native
@given(st.sampled_from(TOKENIZERS), IDS, st.lists(st.integers(0, 4), max_size=5))
def test_an_async_iterable_gives_the_same_texts_as_an_iterable(tokenizer, ids, sizes):
    chunks = cut(ids, sizes)

    async def both():
        return [
            await collected(tokenizer.stream(arriving(chunks))),
            await collected(tokenizer.stream(chunks)),
        ]

    assert asyncio.run(both()) == [list(tokenizer.stream(chunks))] * 2


def test_text_comes_before_the_next_chunk_is_asked_for():
    tokenizer = TOKENIZERS[0]
    asked = []

    def ids():
        for i in tokenizer.encode("the cat"):
            asked.append(i)
            yield i

    texts = iter(tokenizer.stream(ids()))
    assert asked == []
    assert next(texts) == "the"
    assert len(asked) == 1


def test_each_loop_begins_a_new_text():
    ids = TOKENIZERS[1].encode("the cat é🚀")
    stream = TOKENIZERS[1].stream(ids[:-1])
    assert (
        "".join(stream) == "".join(stream) == TOKENIZERS[1].detokenizer().feed(ids[:-1]) + "\ufffd"
    )


def test_an_unknown_id_raises_after_the_text_before_it():
    texts = iter(TOKENIZERS[0].stream([*TOKENIZERS[0].encode("the"), 10**6]))
    assert next(texts) == "the"
    with pytest.raises(VocabularyError, match="1000000"):
        next(texts)


@pytest.mark.parametrize(
    ("chunks", "error", "says"),
    [
        (None, TypeError, "not NoneType"),
        ("text", TypeError, "not str"),
        (5, TypeError, "not int"),
        (["text"], VocabularyError, "an integer, not 't'"),
        ([1.5], VocabularyError, "an integer, not 1.5"),
        ([5, b"x"], VocabularyError, "mixes them"),
        ([b"x", [5]], VocabularyError, "mixes them"),
        (arriving([]), TypeError, "async for"),
    ],
)
def test_what_is_no_stream_is_refused(chunks, error, says):
    with pytest.raises(error, match=says):
        list(TOKENIZERS[0].stream(chunks))
