"""Every split of a million random sequences of each vocabulary into prompt and answer: the answer
is the text of both without that of the prompt, or, where that is not its beginning, without what
both begin with.

DETOK_SEQUENCES sets another number of sequences.
"""

import json
import lzma
import os
import random

import pytest
from tokenizers import Tokenizer

from detok_py import Detokenizer, load_tokenizer
from detok_py.decode.rules import TRANSFORMERS_CLEAN_UP, clean_up
from detok_py.decode.stage import common

NAMES = (
    *("bert_uncased", "deepseek_v3", "gemma2", "gpt2", "llama2", "llama3"),
    *("mistral_nemo", "mistral_v1", "o200k", "phi3", "qwen2_5", "qwen3", "t5_small", "xlmr"),
)
COUNT = int(os.environ.get("DETOK_SEQUENCES", "1000000"))
LONGEST = 6  # ids of a sequence

# Pieces that prompts end in before they are certain: bytes, spaces, what a clean-up looks for.
EDGES = [".", "?", "!", ",", "'", "n't", "'m", "'s", "'ve", "'re", "do", "not", "🚀", "é", "n", "t"]
EDGES += ["▁", " ", "  ", "\n"]


@pytest.mark.native
@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_every_split_of_random_sequences_is_text_behind_its_prompt(data, name):
    document = lzma.decompress((data / "tokenizers" / name / "tokenizer.json.xz").read_bytes())
    peer = Tokenizer.from_str(document.decode())
    ours = load_tokenizer(document)
    rng = random.Random(name)
    known = [i for i in range(peer.get_vocab_size()) if peer.id_to_token(i) is not None]
    special = {token["id"] for token in json.loads(document)["added_tokens"]}
    # A third of the ids are from the whole vocabulary; the others are such that the text of a
    # prompt depends on what comes behind it.
    edges = {i for text in EDGES for i in peer.encode(text, add_special_tokens=False).ids}
    edges |= {i for i in known if len(peer.id_to_token(i)) == 1}
    bytes_of = [i for i in known if ours.vocabulary.token_bytes(i)[:1] >= b"\x80"][:400]
    pools = [known, sorted(edges), bytes_of or known, sorted(special) or known]
    weights = [0.3, 0.3, 0.3, 0.1]

    streams = {
        (skip, byte_fallback, clean): Detokenizer(
            ours.vocabulary,
            byte_fallback=byte_fallback,
            skip_special_tokens=skip,
            clean_up_tokenization_spaces=clean,
        )
        for skip in (True, False)
        for byte_fallback in ("hf", "utf8")
        for clean in (True, False)
    }
    kinds = list(streams)

    def text(ids, skip, byte_fallback, clean):
        if byte_fallback == "hf":  # the truth is Hugging Face's
            found = peer.decode(ids, skip_special_tokens=skip)
            return clean_up(found, TRANSFORMERS_CLEAN_UP) if clean else found
        whole = streams[skip, byte_fallback, clean]
        whole.reset()
        return whole.feed(ids) + whole.flush()

    splits = 0
    for _ in range(COUNT):
        pool = rng.choices(pools, weights, k=rng.randint(1, LONGEST))
        ids = [rng.choice(each) for each in pool]
        kind = rng.choice(kinds)
        whole = text(ids, *kind)
        t = streams[kind]
        for cut in range(len(ids) + 1):
            prompt = text(ids[:cut], *kind)
            t.reset(ids[:cut])
            answer = t.feed(ids[cut:]) + t.flush()
            assert answer == whole[common(prompt, whole) :], (kind, ids, cut)
            splits += 1
    print(f"{name}: {COUNT} sequences, {splits} splits, 0 differences")
