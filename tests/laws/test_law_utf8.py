"""The law over bytes, exhaustively: against the definition, and against digests of what
`TextDecoder` gives.
"""

import hashlib
import itertools
import json

import pytest

from detok_py import StreamingDetokenizer
from detok_py.decode.utf8 import decode_utf8

from .oracle import Certain, chunkings, ignores_cuts, obeys_the_law

# One byte of each class that RFC 3629 tells apart, so that every sequence over all bytes behaves as
# one over these.
CLASSES = bytes([0x41, 0x80, 0x90, 0xA0, 0xC1, 0xC3, 0xE0, 0xED, 0xF0, 0xF4])


def certain(alphabet: bytes) -> Certain:
    return Certain(lambda data: data.decode("utf-8", "replace"), [bytes([b]) for b in alphabet], 3)


@pytest.mark.slow_in_wasm
@pytest.mark.full
def test_every_sequence_of_three_bytes_shows_what_is_certain_and_nothing_less():
    assert obeys_the_law(StreamingDetokenizer, certain(CLASSES), b"", 3) == 1 + 10 + 10**2 + 10**3


@pytest.mark.full
def test_every_sequence_of_four_bytes_of_long_characters():
    obeys_the_law(
        StreamingDetokenizer, certain(bytes([0x41, 0x80, 0x9F, 0xBF, 0xE4, 0xF0])), b"", 4
    )


@pytest.mark.parametrize(
    "data", ["F0 9F 98 80 E4 BD", "ED A0 80 C3 A9", "61 F0 9F 41 EF BF BD", "E0 80 F4 90 80"]
)
def test_every_cutting_shows_the_same(data):
    ignores_cuts(StreamingDetokenizer, certain(CLASSES), bytes.fromhex(data))


def vectors(data):
    for path in sorted((data / "utf8").glob("*.json")):
        found = json.loads(path.read_text())
        if isinstance(found, dict) and "vectors" in found:
            for vector in found["vectors"]:
                if "emit" in vector:
                    yield path.name, vector


def test_every_vector_in_every_cutting(data):
    count = 0
    for name, vector in vectors(data):
        raw = bytes.fromhex(vector["hex"])
        at = range(len(raw) + 1)
        cuts = (
            chunkings(raw)
            if len(raw) <= 6
            else ([raw[i : i + n] for i in at[:-1:n]] for n in (1, 2, 3, 5, len(raw)))
        )
        for chunks in cuts:
            stream, end = StreamingDetokenizer(), 0
            for chunk in chunks:
                end += len(chunk)
                # Half of a pair in the file is half of one character: JSON writes them as two
                # escapes.
                want = "".join(vector["emit"][end - len(chunk) : end])
                assert stream.feed(chunk) == want, (name, vector["id"], chunks)
            assert stream.flush() == vector["flush"], (name, vector["id"])
            count += 1
    assert count > 10_000


def test_the_streaming_scripts_of_web_platform_tests(data):
    scripts = json.loads((data / "utf8" / "wpt_streaming_scripts.json").read_text())
    for script in scripts:
        stream = StreamingDetokenizer()
        for chunk, want, goes_on in script:
            got = stream.feed(bytes.fromhex(chunk))
            if not goes_on:
                got += stream.flush()
                stream.reset()
            assert got == want, script
    assert len(scripts) > 10


def digest_by_byte(alphabet: list[int], length: int) -> str:
    """Return the SHA-256 over what each byte of each sequence puts out, and the flush: length and
    UTF-8 of each.

    Sequences with a common beginning share its outputs, so that the 16.8 million of three bytes
    take a minute and not ten.
    """
    digest = hashlib.sha256()
    letters = [bytes([b]) for b in alphabet]
    steps: dict[bytes, list[tuple[bytes, bytes, bytes]]] = {}

    def out(text: str) -> bytes:
        raw = text.encode()
        return bytes([len(raw)]) + raw

    def after(held: bytes) -> list[tuple[bytes, bytes, bytes]]:
        if held not in steps:
            steps[held] = []
            for letter in letters:
                stream = StreamingDetokenizer()
                stream.feed(held)
                text, h = out(stream.feed(letter)), stream.held
                steps[held].append((text, h, out(stream.flush())))
        return steps[held]

    def walk(held: bytes, before: bytes, left: int) -> None:
        if left == 1:
            digest.update(b"".join([before + text + end for text, _, end in after(held)]))
            return
        for text, h, _ in after(held):
            walk(h, before + text, left - 1)

    walk(b"", b"", length)
    return digest.hexdigest()


def digest_whole(alphabet: list[int], length: int) -> str:
    digest = hashlib.sha256()
    for first in itertools.product(alphabet, repeat=length - 1):
        part = b""
        for last in alphabet:
            text, held = decode_utf8(bytes([*first, last]), "replace")
            raw = (text + held.decode("utf-8", "replace")).encode()
            part += bytes([len(raw)]) + raw
        digest.update(part)
    return digest.hexdigest()


def digests(data, name):
    found = json.loads((data / "utf8" / "exhaustive_digests.json").read_text())
    alphabet = list(range(256)) if name[0] == "n" else found["sets"][name]["alphabet"]
    return alphabet, int(name[1]), found["digests"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name",
    [
        "n1",
        "n2",
        pytest.param("b4", marks=pytest.mark.slow),
        pytest.param("b5", marks=pytest.mark.slow),
        pytest.param("n3", marks=pytest.mark.soak),
    ],
)
def test_all_sequences_byte_by_byte_equal_the_text_decoders(data, name):
    alphabet, length, found = digests(data, name)
    assert digest_by_byte(alphabet, length) == found[f"bytes.{name}"]["sha256"]


@pytest.mark.parametrize(
    "name",
    [
        "n1",
        "n2",
        pytest.param("b4", marks=pytest.mark.soak),
        pytest.param("b5", marks=pytest.mark.soak),
        pytest.param("n3", marks=pytest.mark.soak),
    ],
)
def test_all_sequences_whole_equal_the_text_decoders(data, name):
    alphabet, length, found = digests(data, name)
    assert digest_whole(alphabet, length) == found[f"whole.{name}"]["sha256"]
