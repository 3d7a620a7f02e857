"""The drop-ins, beside the classes whose place they take where their packages are installed."""

import asyncio
import io
import queue
import threading
from contextlib import redirect_stdout
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_tokenizers import FAMILIES
from test_decode_stream import IDS, known, rust
from waiting import arriving

from detok_py import load_tokenizer
from detok_py.decode.rules import TRANSFORMERS_CLEAN_UP, clean_up
from detok_py.decode.stage import common
from detok_py.integrations import mlx_lm, transformers, vllm

pytestmark = pytest.mark.native


class Tensor:
    """What `generate` puts: a shape and `tolist`."""

    def __init__(self, value):
        self.value = value
        nested = value and isinstance(value[0], list)
        self.shape = (len(value), len(value[0])) if nested else (len(value),)

    def __getitem__(self, i):
        return Tensor(self.value[i])

    def tolist(self):
        return self.value


class Letters:
    """A tokenizer whose ids are bytes."""

    def decode(self, ids, skip_special_tokens=True, loud=False):
        text = bytes(ids).decode("utf-8", "replace")
        return text.upper() if loud else text


# transformers
# --------------------------------------------------------------------------------------------------


class Collected(transformers.TextStreamer):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.texts = []

    def on_finalized_text(self, text, stream_end=False):
        self.texts.append(text)


def generate(streamer, ids):
    """Put ids as `generate` of transformers does."""
    for i in ids:
        streamer.put(Tensor([i]))
    streamer.end()


@given(st.sampled_from(sorted(FAMILIES)), IDS, IDS, st.booleans())
def test_a_text_streamer_shows_the_text_of_decode(family, prompt, ids, skip):
    tokenizer = rust(family)
    prompt, ids = known(tokenizer, prompt), known(tokenizer, ids)
    streamer = Collected(tokenizer, skip_special_tokens=skip)
    for _ in range(2):  # the next `put` after `end` begins another answer
        streamer.texts.clear()
        streamer.put(Tensor([prompt]))
        generate(streamer, ids)
        expected = tokenizer.decode(prompt + ids, skip_special_tokens=skip)
        assert "".join(streamer.texts) == expected


def test_a_prompt_that_is_skipped_is_still_known():
    tokenizer = load_tokenizer(FAMILIES["sentencepiece"]())
    prompt, ids = tokenizer.encode("the"), tokenizer.encode("the cat")[1:]
    streamer = Collected(tokenizer, skip_prompt=True)
    streamer.put(Tensor([prompt]))
    generate(streamer, ids)
    assert "".join(streamer.texts) == " cat"


def shows_the_text_of_decode(tokenizer, ids, **options):
    streamer = Collected(tokenizer, **options)
    for i in ids:
        streamer.put([i])
        assert streamer._stream.exact
    streamer.end()
    assert "".join(streamer.texts) == tokenizer.decode(ids, **options)


@given(st.sampled_from(sorted(FAMILIES)), IDS, st.booleans(), st.sampled_from([None, False, True]))
def test_a_text_streamer_cleans_up_as_decode_does(family, ids, skip, clean):
    tokenizer = load_tokenizer(FAMILIES[family]())
    options = {"skip_special_tokens": skip, "clean_up_tokenization_spaces": clean}
    shows_the_text_of_decode(tokenizer, known(tokenizer, ids), **options)


class Outer:
    """As a fast tokenizer of transformers 5: it shows special tokens and may clean up spaces."""

    clean_up_tokenization_spaces = True

    def __init__(self, backend):
        self.backend_tokenizer = backend

    def decode(self, ids, skip_special_tokens=False, clean_up_tokenization_spaces=None):
        text = self.backend_tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)
        wanted = clean_up_tokenization_spaces
        if wanted is None:
            wanted = self.clean_up_tokenization_spaces
        return clean_up(text, TRANSFORMERS_CLEAN_UP) if wanted else text


@pytest.mark.parametrize("clean", [None, False, True])
@pytest.mark.parametrize("family", ["wordpiece", "unigram", "sentencepiece"])
def test_cleaned_text_of_a_fast_tokenizer_is_that_of_its_decode(family, clean):
    tokenizer = Outer(rust(family))
    size = rust(family).get_vocab_size()
    options = {} if clean is None else {"clean_up_tokenization_spaces": clean}

    @given(st.lists(st.integers(0, size - 1), max_size=12))
    def check(ids):
        shows_the_text_of_decode(tokenizer, ids, **options)

    check()


def test_options_of_decode_reach_the_tokenizer():
    streamer = Collected(Letters(), skip_special_tokens=True, loud=True)
    streamer.put(list(b"ab"))
    streamer.end()
    assert "".join(streamer.texts) == "AB"
    with pytest.raises(ValueError, match="not a batch of 2"):
        streamer.put(Tensor([[1], [2]]))


def test_a_text_streamer_prints():
    tokenizer = load_tokenizer(FAMILIES["byte_bpe"]())
    streamer = transformers.TextStreamer(tokenizer)
    with redirect_stdout(io.StringIO()) as shown:
        generate(streamer, tokenizer.encode("the cat 😀"))
    assert shown.getvalue() == "the cat 😀\n"


def test_iterators_give_the_text_to_another_thread():
    tokenizer = load_tokenizer(FAMILIES["byte_bpe"]())
    ids = tokenizer.encode("the cat 😀 é")

    streamer = transformers.TextIteratorStreamer(tokenizer, timeout=60)
    thread = threading.Thread(target=generate, args=(streamer, ids))
    thread.start()
    texts = list(streamer)
    thread.join()
    assert "".join(texts) == "the cat 😀 é"
    assert "" not in texts
    with pytest.raises(queue.Empty):
        next(transformers.TextIteratorStreamer(tokenizer, timeout=0.01))

    async def main():
        streamer = transformers.AsyncTextIteratorStreamer(tokenizer, timeout=60)
        task = asyncio.create_task(asyncio.to_thread(generate, streamer, ids))
        texts = [text async for text in streamer]
        await task
        late = transformers.AsyncTextIteratorStreamer(tokenizer, timeout=0.01)
        with pytest.raises(TimeoutError):
            await anext(late)
        return texts

    assert "".join(asyncio.run(main())) == "the cat 😀 é"


@pytest.mark.parametrize("family", ["byte_bpe", "sentencepiece"])
def test_the_streamers_of_transformers_give_the_same_text(family):
    real = pytest.importorskip("transformers", reason="transformers is not installed")
    tokenizer = real.PreTrainedTokenizerFast(tokenizer_object=rust(family))
    text = "the cat and the cat é\nthe 你"
    ids = tokenizer.encode(text, add_special_tokens=False)
    theirs = real.TextIteratorStreamer(tokenizer, timeout=60)
    ours = transformers.TextIteratorStreamer(tokenizer, timeout=60)
    for streamer in (theirs, ours):
        streamer.put(Tensor([ids[:2]]))
        generate(streamer, ids[2:])
    expected = tokenizer.decode(ids)
    assert "".join(ours) == expected
    # Theirs begins a new text behind a line's end, where sentencepiece drops a space.
    if family == "byte_bpe":
        assert "".join(theirs) == expected


def test_the_streamers_have_the_methods_of_those_of_transformers():
    real = pytest.importorskip("transformers", reason="transformers is not installed")
    for name in ("TextStreamer", "TextIteratorStreamer", "AsyncTextIteratorStreamer"):
        theirs, ours = getattr(real, name), getattr(transformers, name)
        public = {key for key in dir(theirs) if not key.startswith("_")}
        assert public <= set(dir(ours)) | {"text_queue"}


# mlx-lm
# --------------------------------------------------------------------------------------------------


@given(st.sampled_from(sorted(FAMILIES)), IDS)
def test_the_detokenizer_of_mlx_lm_ends_with_the_text_of_decode(family, ids):
    tokenizer = rust(family)
    ids = known(tokenizer, ids)
    stream = mlx_lm.StreamingDetokenizer(tokenizer)
    for _ in range(2):
        stream.reset()
        segments = []
        for i in ids:
            before = stream.text
            stream.add_token(i)
            segments.append(stream.last_segment)
            assert stream.text == before + segments[-1]
        assert stream.tokens == ids
        stream.finalize()
        segments.append(stream.last_segment)
        assert "".join(segments) == stream.text == tokenizer.decode(ids)
        assert stream.last_segment == ""


def test_the_wrapper_of_mlx_lm_takes_the_detokenizer():
    real = pytest.importorskip("mlx_lm.tokenizer_utils", reason="mlx-lm is not installed")
    tokenizer = rust("byte_bpe")
    wrapper = real.TokenizerWrapper(tokenizer, mlx_lm.StreamingDetokenizer, eos_token_ids=[278])
    stream = wrapper.detokenizer
    for i in tokenizer.encode("the cat 😀").ids:
        stream.add_token(i)
    stream.finalize()
    assert stream.text == "the cat 😀"


# vLLM
# --------------------------------------------------------------------------------------------------


def request_of(prompt=(), **params):
    """Return what is read of vLLM's request, with the defaults of its parameters."""
    known = {
        "stop": [],
        "include_stop_str_in_output": False,
        "min_tokens": 0,
        "skip_special_tokens": True,
        "spaces_between_special_tokens": True,
    }
    return SimpleNamespace(
        request_id="1",
        prompt_token_ids=list(prompt),
        prompt_embeds=None,
        sampling_params=SimpleNamespace(**{**known, **params}),
    )


def detokenizer(tokenizer, prompt=(), **params):
    """Return what vLLM makes for a new request."""
    return vllm.IncrementalDetokenizer.from_new_request(tokenizer, request_of(prompt, **params))


@given(st.sampled_from(sorted(FAMILIES)), IDS, st.integers(0, 10), st.integers(1, 4))
def test_the_detokenizer_of_vllm_gives_the_text_behind_the_prompt(family, ids, cut, step):
    tokenizer = rust(family)
    ids = known(tokenizer, ids)
    prompt, new = ids[:cut], ids[cut:]
    d = detokenizer(tokenizer, prompt)
    shown = ""
    for at in range(0, len(new), step):
        assert d.update(new[at : at + step], False) is None
        shown += d.get_next_output_text(False, True)
        assert shown == d.output_text == d.get_next_output_text(False, False)
    shown += d.get_next_output_text(True, True)
    before, whole = tokenizer.decode(prompt), tokenizer.decode(ids)
    assert shown == d.get_next_output_text(True, False)
    assert shown == whole[common(before, whole) :]
    assert (d.output_token_ids, d.num_output_tokens()) == (new, len(new))


def test_a_stop_string_ends_the_text_of_vllm_and_its_ids():
    tokenizer = rust("byte_bpe")
    ids = tokenizer.encode("the cat and the cat").ids
    at = ids.index(tokenizer.encode(" and").ids[0])
    for include in (False, True):
        d = detokenizer(tokenizer, stop=" and", include_stop_str_in_output=include)
        assert d.update(ids, False) == " and"
        assert d.get_next_output_text(True, True) == "the cat" + " and" * include
        assert d.output_token_ids == ids[: at + 1]
    late = detokenizer(tokenizer, stop=[" cat"], min_tokens=at)
    assert late.update(ids, False) == " cat"
    assert late.get_next_output_text(True, False) == "the cat and the"


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("size", [1, 3, 40])
@pytest.mark.parametrize(
    ("stop", "found", "text"),
    [
        (["at", " cat"], "at", "the c"),
        ([" cat", "at"], " cat", "the"),
        (["x", "at", "t", "cat"], "t", ""),
        (["x", "cat", "at", " cat"], "cat", "the "),
        (["and", "he", "the"], "he", "t"),
        ([" cat and", "cat"], "cat", "the "),
    ],
)
def test_of_stops_that_end_together_vllm_takes_the_first_of_the_list(
    stop, found, text, size, include
):
    d = detokenizer(Letters(), stop=stop, include_stop_str_in_output=include)
    ids, shown, stopped = list(b"the cat and the dog"), "", None
    for at in range(0, len(ids), size):
        stopped = d.update(ids[at : at + size], False)
        shown += d.get_next_output_text(bool(stopped), True)
        if stopped:
            break
    assert (stopped, shown) == (found, text + found * include)
    assert d.get_next_output_text(True, False) == shown


def test_the_stops_of_vllm_are_those_of_the_request_when_it_came():
    tokenizer = rust("byte_bpe")
    ids = tokenizer.encode("the cat and the cat").ids
    stops = [" and", "the"]
    for stop in (stops, iter([" and"]), {" and"}):
        d = detokenizer(tokenizer, stop=stop)
        if stop is stops:
            stops[:] = []
            assert d.update(ids, False) == "the"
        else:
            assert d.update(ids, False) == " and"


def test_an_id_that_ends_the_text_of_vllm_is_shown_only_if_stops_are():
    tokenizer = rust("byte_bpe")
    ids = tokenizer.encode("the cat").ids
    for include, text in ((False, "the"), (True, "the cat")):
        d = detokenizer(tokenizer, include_stop_str_in_output=include)
        assert d.update(ids, True) is None
        assert (d.get_next_output_text(True, True), d.output_token_ids) == (text, ids)
        assert d.update([], True) is None


def test_without_a_tokenizer_vllm_counts_ids():
    d = detokenizer(None)
    assert (d.update([5, 6], False), d.num_output_tokens()) == (None, 2)
    assert d.get_next_output_text(True, True) == ""


def test_the_detokenizer_of_vllm_gives_what_its_own_gives():
    real = pytest.importorskip("vllm.v1.engine.detokenizer", reason="vLLM is not installed")
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_object=rust("byte_bpe"))
    theirs, ours = real.IncrementalDetokenizer, vllm.IncrementalDetokenizer
    assert {key for key in dir(theirs) if not key.startswith("_")} <= set(dir(ours))
    ids = tokenizer.encode("the cat 😀 and the cat é你 and", add_special_tokens=False)
    for stop in ([], [" and", "the cat é"]):
        for include in (False, True):
            for size in (1, 3, len(ids)):
                request = request_of(
                    ids[:2], stop=stop, include_stop_str_in_output=include, min_tokens=size
                )
                ends = []
                for kind in (theirs, ours):
                    d = kind.from_new_request(tokenizer, request)
                    found = None
                    for at in range(2, len(ids), size):
                        found = found or d.update(ids[at : at + size], False)
                        if found:
                            break
                    ends.append((found, d.get_next_output_text(True, True), d.output_token_ids))
                assert ends[0] == ends[1]


# Starlette
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_streaming_response_sends_whole_characters(asynchronous):
    pytest.importorskip("starlette", reason="starlette is not installed")
    from detok_py.integrations.starlette import StreamingResponse

    tokenizer = load_tokenizer(FAMILIES["byte_bpe"]())
    ids = tokenizer.encode("the cat 😀 é")
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        await asyncio.sleep(3600)

    async def main():
        chunks = arriving(ids) if asynchronous else iter(ids)
        response = StreamingResponse(tokenizer, chunks, headers={"x-a": "b"}, spans=False)
        await response({"type": "http", "asgi": {"spec_version": "2.0"}}, receive, send)

    asyncio.run(main())
    start, *bodies = sent
    assert (b"content-type", b"text/plain; charset=utf-8") in start["headers"]
    assert (b"x-a", b"b") in start["headers"]
    texts = [body["body"].decode() for body in bodies]
    assert "".join(texts) == "the cat 😀 é"
    assert len(texts) > 4
