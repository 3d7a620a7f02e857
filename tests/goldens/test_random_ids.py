"""Streams of random ids from real vocabularies decode as in Hugging Face, with and without special
tokens.
"""

import json
import lzma
import random

import pytest
from tokenizers import Tokenizer

from detok_py import Detokenizer, load_tokenizer

from .test_golden_decode import JSON

TEXT = 50  # ids of one text


def compare(data, folder, name, count):
    """Stream `count` random ids as short texts in random chunks; compare with the peer's decode."""
    document = lzma.decompress((data / "tokenizers" / name / "tokenizer.json.xz").read_bytes())
    (folder / "tokenizer.json").write_bytes(document)
    peer = Tokenizer.from_str(document.decode())
    ours = load_tokenizer(folder / "tokenizer.json")
    rng = random.Random(name)
    size = peer.get_vocab_size()
    known = {i for i in range(size) if peer.id_to_token(i) is not None}
    # Half of the ids are from the whole vocabulary, half are byte tokens, single bytes and special
    # tokens.
    special = [token["id"] for token in json.loads(document)["added_tokens"]]
    near = [i for i in [*range(300), *special] if i in known]
    streams = {
        skip: Detokenizer(ours.vocabulary, byte_fallback="hf", skip_special_tokens=skip)
        for skip in (True, False)
    }
    for _ in range(count // TEXT):
        ids = [
            i
            for i in (
                rng.choice(near) if rng.random() < 0.5 else rng.randrange(size) for _ in range(TEXT)
            )
            if i in known
        ]
        cut = rng.randrange(len(ids))
        for skip, t in streams.items():
            t.reset()
            text = t.feed(ids[:cut]) + "".join([t.push(i) for i in ids[cut:]]) + t.flush()
            assert text == peer.decode(ids, skip_special_tokens=skip), ids


@pytest.mark.sampled(7)
@pytest.mark.slow
@pytest.mark.parametrize("name", JSON)
def test_random_ids_decode_as_hugging_face_decodes_them(data, tmp_path, name):
    compare(data, tmp_path, name, 10_000)


@pytest.mark.soak
@pytest.mark.parametrize("name", JSON)
def test_a_million_random_ids_decode_as_hugging_face_decodes_them(data, tmp_path, name):
    compare(data, tmp_path, name, 1_000_000)
