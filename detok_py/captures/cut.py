"""Cut a text into the tokens or bytes that an engine would send, as the bridge's `scripted` engine
does, for a page without a bridge.

In: a text, its token ids if a tokenizer is known, and how to cut and damage it. Out: pieces:
(seconds, id or None, bytes or None).
"""

from typing import Any

from ..decode.vocabulary import Vocabulary
from ..errors import VocabularyError

CRASH = "The engine crashed, as requested; what came before is kept."


def cut(asked: dict[str, Any], vocabulary: "Vocabulary | None") -> tuple[list[Any], Any]:
    """Return (pieces, the event that ends the stream). A piece is (seconds, id or None, bytes or
    None).

    `asked` has "text", "cut" ("token" or "byte"), "ids" (those of the text, or None), "pace"
    (pieces a second, 0 for as fast as possible), "seed", and "faults": {"invalid": a chance,
    "end": bytes, "stall": [bytes, seconds], "crash": bytes}.

    >>> cut({"text": "é", "cut": "byte", "pace": 2}, None)
    ([(0.0, None, b'\\xc3'), (0.5, None, b'\\xa9')], {'type': 'finished', 'reason': 'eos'})
    """
    faults = asked.get("faults") or {}
    whole = asked["text"].encode()
    data = _damaged(whole, faults, asked.get("seed") or 1)
    pieces: list[Any]
    if asked.get("cut") == "byte" or vocabulary is None:
        pieces = [(None, data[at : at + 1]) for at in range(len(data))]
    elif asked.get("ids") is not None and data == whole:
        pieces = [(token_id, None) for token_id in asked["ids"]]
    else:
        pieces = [(token_id, None) for token_id in LongestTokens(vocabulary).cut(data)]
    pace = asked.get("pace") or 0
    stall = faults.get("stall")
    crash = faults.get("crash")
    out = []
    done = 0
    waited = 0.0
    for n, (token_id, piece) in enumerate(pieces):
        if stall and not waited and done >= stall[0]:
            waited = float(stall[1])
        if crash is not None and done >= crash:
            break
        out.append((waited + (n / pace if pace else 0.0), token_id, piece))
        if stall or crash is not None:
            if piece is None and vocabulary is not None:
                done += len(vocabulary.stored_bytes(token_id))
            else:
                done += len(piece or b"")
    if crash is not None:
        return out, {"type": "error", "code": "engine_crashed", "message": CRASH}
    return out, {"type": "finished", "reason": "stop" if "end" in faults else "eos"}


class LongestTokens:
    """Cuts bytes into the longest tokens of a vocabulary that fit.

    >>> LongestTokens(Vocabulary.from_bytes([b"a", b"b", b"ab", b"!"])).cut(b"abab!")
    [2, 2, 3]
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._ids: dict[bytes, int] = {}
        self._longest = 1
        for token_id in range(len(vocabulary)):
            if token_id in vocabulary.special_ids:
                continue
            try:
                piece = vocabulary.token_bytes(token_id)
            except ValueError:
                continue  # an id without bytes
            if 0 < len(piece) <= 64 and piece not in self._ids:
                self._ids[piece] = token_id
                self._longest = max(self._longest, len(piece))

    def cut(self, data: bytes) -> list[int]:
        """Return ids whose bytes are `data`. Raises VocabularyError if no token begins
        with a byte.
        """
        out = []
        at = 0
        while at < len(data):
            for size in range(min(self._longest, len(data) - at), 0, -1):
                found = self._ids.get(data[at : at + size])
                if found is not None:
                    out.append(found)
                    at += size
                    break
            else:
                raise VocabularyError(
                    f'this vocabulary has no token for byte {data[at]:#04x}; use cut "byte"'
                )
        return out


def _damaged(data: bytes, faults: dict[str, Any], seed: int) -> bytes:
    chance = faults.get("invalid") or 0
    if chance:
        out = bytearray()
        for byte in data:
            seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
            if (seed >> 8) % 10000 < chance * 10000:
                out.append(0xF5 + (seed >> 4) % 11)  # never in UTF-8
            out.append(byte)
        data = bytes(out)
    return data[: faults["end"]] if "end" in faults else data
