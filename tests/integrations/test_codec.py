"""The codec "detok", and text files by it, beside StreamingDetokenizer and Python's own utf-8."""

import codecs
import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

import detok_py
from detok_py.integrations import codec

pytestmark = pytest.mark.native

DATA = st.lists(
    st.sampled_from([b"a", b"\xc3", b"\xa9", b"\xed\xa0", b"\xf0\x9f", b"\x98\x80", b"\r\n", b"\n", b"\xef\xbb\xbf"])
    | st.binary(max_size=3),
    max_size=8,
)  # fmt: skip
POLICIES = st.sampled_from(["replace", "ignore", "backslashreplace"])


@given(DATA, POLICIES)
def test_an_incremental_decoder_gives_what_a_streaming_detokenizer_gives(chunks, errors):
    decoder = codecs.getincrementaldecoder("detok")(errors)
    stream = detok_py.StreamingDetokenizer(errors)
    for _ in range(2):  # a decoder begins anew after its last chunk
        for chunk in chunks:
            assert decoder.decode(chunk) == stream.feed(chunk)
            assert decoder.getstate() == (stream.held, 0)
            again = codecs.getincrementaldecoder("detok")(errors)
            again.setstate(decoder.getstate())
            assert again.decode(b"\x80\x80a") == stream.copy().feed(b"\x80\x80a")
        assert decoder.decode(b"", True) == stream.flush()
        stream.reset()


@given(DATA)
def test_strict_refuses_a_chunk_whole(chunks):
    decoder = codecs.getincrementaldecoder("detok")()
    text, good = "", b""
    for chunk in chunks:
        held = decoder.getstate()
        try:
            text += decoder.decode(chunk)
            good += chunk
        except UnicodeDecodeError:
            assert decoder.getstate() == held
    try:
        text += decoder.decode(b"", True)
    except UnicodeDecodeError:
        decoder.reset()
    assert good.decode("utf-8", "ignore").startswith(text)


@given(DATA, POLICIES, st.sampled_from(["", None, "\n", "\r\n"]), st.integers(1, 5))
def test_a_text_file_reads_what_pythons_own_reads(chunks, errors, newline, size):
    data = b"".join(chunks)
    theirs = io.TextIOWrapper(io.BytesIO(data), "utf-8", errors, newline)
    expected = theirs.read()
    file = detok_py.open(io.BytesIO(data), errors=errors, newline=newline)
    assert "".join(iter(lambda: file.read(size), "")) == expected
    file.seek(0)
    assert "".join(file) == expected
    file.seek(0)
    start = file.read(size)
    place = file.tell()
    rest = file.read()
    file.seek(place)
    assert file.read() == rest == expected[len(start) :]
    assert codecs.decode(data, "detok", errors) == data.decode("utf-8", errors)


def test_text_of_a_pipe_comes_while_it_is_open():
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as pipe, detok_py.open(pipe) as file:
        os.write(writing, "é\n".encode() + b"\xf0")
        assert file.readline() == "é\n"
        os.write(writing, b"\x9f\x98\x80")
        assert file.read(1) == "😀"
        os.close(writing)
        assert file.read() == ""


def test_python_opens_files_by_the_name_of_the_codec(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("\ufeffé\n", encoding="detok")
    assert path.read_bytes() == "\ufeffé\n".encode()
    assert path.read_text(encoding="detok") == "\ufeffé\n"
    with path.open("rb") as file:
        assert codecs.getreader("detok")(file).read() == "\ufeffé\n"


def test_a_policy_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="errors must be one of"):
        detok_py.open(io.BytesIO(b""), errors="surrogateescape")
    with pytest.raises(TypeError, match="binary"):
        detok_py.open(io.StringIO(""))


def test_the_name_open_is_public_but_hides_nothing():
    assert detok_py.open is codec.open
    assert "open" in dir(detok_py)
    assert "open" not in detok_py.__all__
