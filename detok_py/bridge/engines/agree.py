"""Check whether a vocabulary can be an engine's.

In: the engine's ids for a sample text, and a vocabulary. Out: one clause that says why they
disagree, or None. Ids that are decoded with another model's vocabulary give wrong text without any
error, so the bridge checks before it streams.
"""

from typing import Any

from ...decode.vocabulary import Vocabulary

SAMPLE = "The café 日本 ไทย 🌦️ 1234 {}\n"


def disagreement(ids: Any, vocabulary: Vocabulary) -> str | None:
    """Return why `ids`, the engine's ids for SAMPLE, cannot be of `vocabulary`.

    None if they agree, or if they cannot be compared.

    >>> v = Vocabulary.from_bytes([bytes([b]) for b in range(256)])
    >>> disagreement(list(SAMPLE.encode()), v) is None, disagreement([1, 2], v)
    (True, "it reads the engine's ids for a sample as another text")
    >>> disagreement([300], v)
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
    if text.strip() == SAMPLE.strip().encode() or vocabulary.rules != {"type": "Bytes"}:
        return None
    return "it reads the engine's ids for a sample as another text"
