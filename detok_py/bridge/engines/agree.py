"""Check whether a vocabulary can be an engine's.

In: the engine's ids for a sample text, and a vocabulary. Out: one clause that says why they
disagree, or None. Ids that are decoded with another model's vocabulary give wrong text without any
error, so the bridge checks before it streams. A tokenizer that was changed can agree in all common
words, so each sample has other rare ones.
"""

import random
import unicodedata
from typing import Any

from ...decode.vocabulary import Vocabulary
from .http import EngineClient

SAMPLE = "The café 日本 ไทย 🌦️ 1234 {}\n"
WORDS = 128


def sample_of(vocabulary: Vocabulary) -> str:
    """Return a sample text for a vocabulary: SAMPLE, and words at random that are its tokens."""
    words: list[str] = []
    for i in random.choices(range(len(vocabulary)), k=4 * WORDS) if len(vocabulary) else ():
        if i in vocabulary.special_ids or len(words) == WORDS:
            continue
        try:
            word = vocabulary.token_bytes(i).decode().strip()
        except ValueError:
            continue
        # Characters that no normalizer changes.
        if word.isalnum() and unicodedata.normalize("NFKC", word) == word:
            words.append(word)
    return f"{SAMPLE.strip()} {' '.join(words)}".strip() + "\n"


async def refuse_by_sample(
    client: EngineClient, model: str | None, vocabulary: Vocabulary
) -> str | None:
    """Compare a vocabulary with the ids that vLLM's or SGLang's /tokenize gives for a sample."""
    sample = sample_of(vocabulary)
    body = {"model": model, "prompt": sample, "add_special_tokens": False}
    answer = await client.post("/tokenize", body)
    ids = answer.get("tokens") if isinstance(answer, dict) else None
    return disagreement(ids, sample, vocabulary)


def disagreement(ids: Any, sample: str, vocabulary: Vocabulary) -> str | None:
    """Return why `ids`, the engine's ids for a sample, cannot be of `vocabulary`.

    None if they agree, or if they cannot be compared.

    >>> v = Vocabulary.from_bytes([bytes([b]) for b in range(256)])
    >>> disagreement(list(SAMPLE.encode()), SAMPLE, v) is None, disagreement([1, 2], SAMPLE, v)
    (True, "it decodes the engine's ids for a sample to another text")
    >>> disagreement([300], SAMPLE, v)
    'the engine uses id 300, and it has 256 ids'
    """
    if not isinstance(ids, list) or not all(type(i) is int and i >= 0 for i in ids) or not ids:
        return None
    largest = max(ids)
    if largest >= len(vocabulary):
        return f"the engine uses id {largest}, and it has {len(vocabulary)} ids"
    try:
        text = b"".join([vocabulary.token_bytes(i) for i in ids if i not in vocabulary.special_ids])
    except ValueError:
        return "it has no token for one of the engine's ids"
    # SentencePiece adds a space in front. Other rules may change the text further, so then the
    # texts cannot be compared.
    if text.strip() == sample.strip().encode() or vocabulary.rules != {"type": "Bytes"}:
        return None
    return "it decodes the engine's ids for a sample to another text"
