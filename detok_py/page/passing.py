"""Steps of a stream that JavaScript takes by itself, because Python has described them beforehand.

In: a ChatStream in a state. Out: plain values that become JSON.

Tokens. In the default state of a detokenizer most tokens give a text of their own and leave the
state as it is. What a token gives follows from the vocabulary: its bytes in the packed file, if
tokens are bytes; otherwise `texts_of` returns it. Bytes that follow each other are one UTF-8
stream, which a text ends. So the held beginning of a character needs no state of its own: its bytes
are kept beside the state.

Text. `passing` is `[blocked, lead, then]`: a character that is not in `blocked` is shown after
`lead`, on the channel of the state, and leads to the state `then`; if `then` is None, the state
stays. Only for blocked characters, which are few, JavaScript asks for a step. It follows a text
character by character, so the output does not depend on how the text is cut.
"""

from typing import Any, Callable

from ..decode.chain import Chain
from ..decode.channels import CONTENT
from ..decode.chat import ChatStream
from ..decode.detokenizer import Detokenizer
from ..decode.joins import Join
from ..decode.packed import places
from ..decode.stage import RAW
from ..decode.utf8 import StreamingDetokenizer
from ..decode.word_search import shared
from ..errors import DetokError

# A private-use character that no option names: it stands for all ordinary characters.
NEUTRAL = "\U000f0001"
PLACES = ("text", "edge")  # where the reader of a format reads text


def _joins(source: Any) -> bool:
    """Say whether bytes that follow each other are one UTF-8 stream, and text is shown as it is."""
    chain = source._chain
    return (
        isinstance(chain, Chain)
        and chain.join_class is Join
        and [(rule.kind, rule.stop) for rule in chain.rules.text] in ([], [("Strip", 0)])
    )


def takes_tokens(chat: ChatStream) -> bool:
    """Say whether the detokenizer is in its default state, apart from held bytes."""
    parts = chat._catch_up()
    source = parts.source
    if source.__class__ is not Detokenizer or source.settings.spans:
        return False
    chain = source._current_chain()
    if not source.held_bytes:
        return bool(chain.state == source._tables.default_row.key)
    if not _joins(source) or parts.channels.held or parts.ahead or len(source.held_bytes) > 3:
        return False
    join, run = chain.join, chain.join.run
    join.run = b""
    found: bool = chain.state == source._tables.default_row.key
    join.run = run
    return found


def hold(chat: ChatStream, held: bytes) -> None:
    """Let the detokenizer hold the bytes of half a character."""
    source: Any = chat._catch_up().source
    source._current_chain().join.run = held
    source._find_row()


def tokens_in_file(chat: ChatStream) -> list[Any]:
    """Return where the bytes of tokens are in the packed file (`packed.places`), None if tokens are
    not bytes; and the ids whose steps JavaScript must ask for, as ranges [first, last]: special
    tokens, holes, and those that may end the answer.
    """
    parts = chat._catch_up()
    vocabulary = parts.source.vocabulary
    at, asked = places(vocabulary.pack())
    for i in sorted(vocabulary.special_ids.union(parts.rules.watched)):
        if asked and asked[-1][1] == i - 1:
            asked[-1][1] = i
        else:
            asked.append([i, i])
    return [at if getattr(parts.source._chain, "joins_bytes", False) else None, asked]


def texts_of(source: Any, first: int, end: int) -> list[Any]:
    """Return what each id from `first` to `end`, exclusive, gives in the default state: a text, a
    byte, or None if JavaScript must ask for its step.
    """
    chain, vocabulary = source._current_chain(), source.vocabulary
    before, default = chain.state, source._tables.default_row.key
    joins, plain = _joins(source), _replaced(source)
    out: list[Any] = []
    for i in range(first, min(end, len(vocabulary))):
        token: Any = None
        stored = vocabulary._source(i)
        if stored is None or i in vocabulary.literal_ids or i in vocabulary.special_ids:
            pass
        elif plain is not None and stored[:3] != b"<0x":
            for find, put in plain:
                stored = stored.replace(find, put)
            token = stored.decode() or None
        else:
            try:
                chain.state = default
                items = [chain.entry(stored)]
                for stage in chain.items:  # some make a byte of a piece
                    items = [each for item in items for each in stage.feed(item)]
                if RAW in [item.kind for item in items]:
                    is_byte = joins and len(items) == 1 and len(items[0].data) == 1
                    token = items[0].data[0] if is_byte else None
                else:
                    token = "".join([chain.join.feed(item) for item in items]) or None
                if chain.state != default:
                    token = None
            except (DetokError, UnicodeError):
                pass
        out.append(token)
    chain.state = before
    return out


def _replaced(source: Any) -> "list[tuple[bytes, bytes]] | None":
    """Return the replacements that make a piece's text, if only these and byte fallback do; else
    None. This is the quick way for the vocabularies of SentencePiece.
    """
    out = []
    if not _joins(source) or source._chain.items:
        return None
    for rule in source._chain.rules.tokens:
        if rule.kind == "Replace" and rule.replace is None and rule.find:
            out.append((rule.find.encode(), rule.put.encode()))
        elif rule.kind != "ByteFallback":
            return None
    return out


def passes(chat: ChatStream, data: bytes) -> bool:
    """Return whether a stream of bytes shows these whole characters as they are, as content, and
    stays in the state that it is in.
    """
    parts = chat._catch_up()
    channels: Any = parts.channels
    if parts.source.__class__ is not StreamingDetokenizer or parts.source.held_bytes:
        return False
    if not parts.goes_on or channels.channel != CONTENT or channels.triggers is None:
        return False
    return not any(letter.encode() in data for letter in channels.triggers)


def passing(
    chat: ChatStream, crossed_state: "Callable[[ChatStream, Any], list[Any]]"
) -> "list[Any] | None":
    """Return `passing`, as this file's docstring has it, for the state of a stream; None if no text
    passes, or if that is not known. `crossed_state` returns a state as it crosses to JavaScript.
    """
    parts = chat._catch_up()
    channels: Any = parts.channels
    if not parts.goes_on or parts.ahead or parts.pending or parts.rules.least:
        return None
    triggers = channels.triggers
    if triggers is not None:
        return [triggers, "", None]
    # Within a call or a JSON value, characters that no marker has change the state too.
    reader = getattr(channels, "reader", None)
    within = channels.begins_call if reader is None else reader.call.raw or reader.at not in PLACES
    if within or channels.options.get("format") == "json":
        return None
    before, channel, begun = channels.save(), channels.channel, channels.begun
    out: list[Any] = []
    calls = channels.mark_call()
    channels.feed_into(out, NEUTRAL)
    lead = _only_text(out, channel)
    ends = channels.stopped is not None or channels.channel != channel
    then = None
    if lead is not None and not ends and channels.mark_call() == calls:
        triggers = channels.triggers
        if triggers is not None:
            then = crossed_state(chat, parts.future)
    if then is None or lead is None:
        channels.load(before)
        return None
    key, blocked = channels.key, list(triggers)
    # Of the others only those can be that follow, in a word, what came last.
    last = (lead[:-1] or begun)[-1:]
    followers = shared(("followers", channels.words), _followers)
    for letter in sorted(set(followers.get(last, "") + followers[""]).difference(blocked)):
        channels.load(before)
        found: list[Any] = []
        channels.feed_into(found, letter)
        stays = channels.stopped is None and channels.key == key
        if not stays or found != [(channel, lead[:-1] + letter)]:
            blocked.append(letter)
    channels.load(before)
    return ["".join(sorted(blocked)), lead[:-1], then]


def _followers(words: "tuple[str, ...]") -> dict[str, str]:
    """Return which characters follow a character in these words; by "" those that a word begins
    with.

    >>> _followers(("</a>", "<a>"))
    {'': '<', '<': '/a', '/': 'a', 'a': '>'}
    """
    found = {"": ""}
    for word in words:
        last = ""
        for letter in word:
            if letter not in found.get(last, ""):
                found[last] = found.get(last, "") + letter
            last = letter
    return found


def _only_text(deltas: list[Any], channel: str) -> "str | None":
    """Return the text if there is one delta, on `channel`, that ends with NEUTRAL; else None."""
    if len(deltas) != 1 or deltas[0].channel != channel or deltas[0].call is not None:
        return None
    text: str = deltas[0].text
    return text if text.endswith(NEUTRAL) else None
