"""Whether a vocabulary can be an engine's.

In: the ids that the engine makes of a sample, and a vocabulary. Out: one clause that says why it can't be, or None. Ids decoded with
another model's table are fluent nonsense, so this is asked before anything is streamed.
"""

from typing import Any

from detok_py.vocabulary import Vocabulary

SAMPLE = "The café 日本 ไทย 🌦️ 1234 {}\n"


def disagreement(ids: Any, vocabulary: Vocabulary) -> str | None:
    """Return why `ids`, the engine's own for SAMPLE, can't be of `vocabulary`; None where they agree or there is nothing to compare.

    >>> v = Vocabulary.from_bytes([bytes([b]) for b in range(256)])
    >>> disagreement(list(SAMPLE.encode()), v) is None, disagreement([1, 2], v)
    (True, "it reads the engine's ids for a sample as another text")
    >>> disagreement([300], v)
    'the engine uses id 300, and it has 256 ids'
    """
    if not isinstance(ids, list) or not all(isinstance(i, int) for i in ids) or not ids:
        return None
    largest = max(ids)
    if largest >= len(vocabulary):
        return f"the engine uses id {largest}, and it has {len(vocabulary)} ids"
    try:
        text = b"".join([vocabulary.token_bytes(i) for i in ids if i not in vocabulary.special_ids])
    except ValueError:
        return "it has no token for one of the engine's ids"
    # SentencePiece puts a space before everything; a normalizer may do more, and then there is nothing to compare.
    if text.strip() == SAMPLE.strip().encode() or vocabulary.rules != {"type": "Bytes"}:
        return None
    return "it reads the engine's ids for a sample as another text"
