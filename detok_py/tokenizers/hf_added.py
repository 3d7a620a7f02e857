"""The added tokens of tokenizer.json and of the files beside it.

In: their entries. Out: the entries with all flags, the ids that `tokenizers` gives them, and the
texts that they decode to.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import TokenizerFormatError
from .hf_document import MAX_PIECE, Json, describe, types_in


def all_numbered(
    pieces: Sequence[str | None], added: Sequence[Json], more_added: Sequence[Json]
) -> list[tuple[Json, int]]:
    """Return all added tokens with their ids, those of tokenizer.json first."""
    wanted = {entry["content"] for entry in (*added, *more_added)}
    known = {piece: i for i, piece in enumerate(pieces) if piece is not None and piece in wanted}
    size = len(pieces) - pieces.count(None)
    numbered = number_added(known, size, added)
    given = {entry["content"]: i for entry, i in numbered}
    highest = max(given.values(), default=-1)
    more = [entry for entry in more_added if entry["content"] not in given]
    return numbered + number_added(
        {**known, **given}, highest + 1 if highest >= size else size, more
    )


def number_added(
    known: Mapping[str, int], free: int, added: Sequence[Json]
) -> list[tuple[Json, int]]:
    """Return each added token with the id that `tokenizers` gives it.

    That is the id of the same piece in the model's vocabulary (`known`), otherwise the next id from
    `free` on. The id in the file is ignored, as in tokenizers 0.23 (`add_tokens` of
    added_vocabulary.rs). A token listed twice keeps its first id and has its last flags. An empty
    token is dropped.

    >>> number_added(
    ...     {"a": 0, "b": 1}, 2, [{"content": "b"}, {"content": "<x>"}, {"content": "<y>"}]
    ... )
    [({'content': 'b'}, 1), ({'content': '<x>'}, 2), ({'content': '<y>'}, 3)]
    """
    out: dict[str, tuple[Json, int]] = {}
    for entry in added:
        content = entry["content"]
        if content in out:
            before, token_id = out[content]
            shown = before.get("shown_normalized") or before.get("normalized")
            out[content] = ({**entry, "shown_normalized": shown}, token_id)
        elif content in known:
            out[content] = (entry, known[content])
        elif content:
            out[content] = (entry, free)
            free += 1
    return list(out.values())


def decoded_texts(
    numbered: Sequence[tuple[Json, int]], normalizer: Any, what: str
) -> dict[int, str]:
    """Return the text that each added token decodes to.

    That is its content, normalized if the token or an earlier entry for it has "normalized", as in
    tokenizers since 0.23.
    """
    out = {token_id: entry["content"] for entry, token_id in numbered}
    changed = [
        (entry["content"], token_id)
        for entry, token_id in numbered
        if entry["normalized"] or entry.get("shown_normalized")
    ]
    if changed and not types_in(normalizer) <= {"Sequence"}:
        from .normalize import compile_normalizer

        try:
            normalize = compile_normalizer(normalizer)
        except TokenizerFormatError as error:
            raise TokenizerFormatError(
                f"{what}: the text of {changed[0][0]!r} depends on its normalizer: {error}"
            ) from None
        out.update([(token_id, normalize(content)) for content, token_id in changed])
    return out


def added_token(entry: Any, what: str) -> Json:
    """Return an added token with all flags; missing ones have the defaults of `tokenizers`."""
    if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
        raise TokenizerFormatError(
            f'{what}: an added token is {describe(entry)}; expected an object with a "content"'
        )
    content = entry["content"]
    if len(content) > MAX_PIECE:
        raise TokenizerFormatError(
            f"{what}: an added token has {len(content)} characters; at most {MAX_PIECE} are allowed"
        )
    flags = {
        flag: entry.get(flag, False) for flag in ("special", "single_word", "lstrip", "rstrip")
    }
    flags["normalized"] = entry.get("normalized", not flags["special"])
    for flag, value in flags.items():
        if not isinstance(value, bool):
            raise TokenizerFormatError(
                f'{what}: "{flag}" of the added token {content[:40]!r} is {describe(value)}; expected true or false'
            )
    token_id = entry.get("id")
    if token_id is not None and (type(token_id) is not int or token_id < 0):
        raise TokenizerFormatError(
            f"{what}: the id of the added token {content[:40]!r} is {describe(token_id)}; expected a whole number, 0 or more"
        )
    return {"id": token_id, "content": content, **flags}


def added_beside(config: Json, added: Json) -> list[tuple[Json, int]]:
    """Return the added tokens of tokenizer_config.json and added_tokens.json with their ids, in the
    order of these.
    """
    found: dict[int, Json] = {}
    decoder = config.get("added_tokens_decoder", {})
    if not isinstance(decoder, dict):
        raise TokenizerFormatError(
            f"tokenizer_config.json: added_tokens_decoder is {describe(decoder)}; expected an object"
        )
    for key, entry in decoder.items():
        if not (key.isascii() and key.isdigit() and len(key) < 10):
            raise TokenizerFormatError(
                f"tokenizer_config.json: added_tokens_decoder has the id {key[:40]!r}; expected a whole number"
            )
        found[int(key)] = added_token(entry, "tokenizer_config.json")
    for content, token_id in added.items():
        if type(token_id) is not int or token_id < 0:
            raise TokenizerFormatError(
                f"added_tokens.json: the id of {content[:40]!r} is {describe(token_id)}; expected a whole number"
            )
        found.setdefault(token_id, added_token({"content": content}, "added_tokens.json"))
    return [(found[i], i) for i in sorted(found)]
