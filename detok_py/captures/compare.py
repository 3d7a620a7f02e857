"""Compare the text of events with another record of the same answer: its tokens, or its whole text.

In: the text of each event, and the text as it should be. Out: `Difference`s, in order.
"""

from typing import Any, NamedTuple

from .servers import CONTENT

# piece and last: the numbers of the first and the last event of it · at: its place in the right
# text · kind: "bad" (U+FFFD stands for characters), "gone" (no event has the text), "end" (the
# same, after the last event), "more" (an event came again) or "other" · got · right
Difference = NamedTuple(
    "Difference",
    [
        ("piece", int),
        ("last", int),
        ("at", int),
        ("kind", str),
        ("got", str),
        ("right", str),
    ],
)

BAD = "\ufffd"
MOST_GONE = 1000
MOST_COMPARED = 24
LEAST_PIECES, LEAST_WHOLE = 2, 8  # chunks and bytes, before a text that repeats them is no chance


def is_whole_again(chunks: list[Any], text: str) -> bool:
    """Return whether a text is that of all chunks before it."""
    data = text.encode()
    own = [one.data for one in chunks if one.channel == CONTENT and one.data]
    if len(data) < LEAST_WHOLE or len(own) < LEAST_PIECES or sum(map(len, own)) != len(data):
        return False
    return b"".join(own) == data


def without_whole(chunks: list[Any], whole: str) -> tuple[list[Any], str]:
    """Return chunks without one at the end that has the text of all others, which a server sent
    whole again, and that text; or, without such a chunk, `whole`.
    """
    own = [n for n, one in enumerate(chunks) if one.channel == CONTENT and one.data]
    at = own[-1] if own else 0
    if not own or chunks[at].texts or chunks[at].broken:
        return chunks, whole
    text = chunks[at].data.decode()
    same = is_whole_again(chunks[:at], text)
    return (chunks[:at] + chunks[at + 1 :], text) if same else (chunks, whole)


def differences(pieces: list[str], right: str) -> list[Difference]:
    """Return how pieces differ from the right text, up to the first difference that is "other".

    >>> [one[3:] for one in differences(["a", "b", " \\ufffd", "\\ufffd e"], "axb ç e!")]
    [('gone', '', 'x'), ('bad', ' \\ufffd\\ufffd e', ' ç e'), ('end', '', '!')]
    >>> [one[3:] for one in differences(["ab", "c", "ab", "c", "d"], "abcd")]
    [('more', 'abc', '')]
    """
    out: list[Difference] = []
    at = again = 0
    open_: Any = None  # a character whose pieces came as U+FFFD: its piece, its place, the text
    for n, said in enumerate(pieces):
        if n < again:
            continue
        if open_ is None and (not said or right[at : at + len(said)] == said):
            at += len(said)
            continue
        if open_ is None and BAD not in said:
            there = _found_later(pieces, n, right, at)
            again = _came_again(pieces, n, right, at)
            if there >= 0:
                out.append(Difference(n, n, at, "gone", "", right[at:there]))
                at, again = there + len(said), n + 1
            elif again > n:
                got = "".join(pieces[n:again])
                out.append(Difference(n, again - 1, at, "more", got, ""))
            else:
                return out + [_other(pieces, n, right, at)]
            continue
        if BAD in said:
            first, begin, got = open_ or (n, at, "")
            open_ = (first, begin, got + said)
        for m, part in enumerate(said.split(BAD)):
            loose = 4 if m or (open_ and open_[2] != said) else 0
            there = right.find(part, at, at + len(part) + loose)
            if there < 0:
                return out + [_other(pieces, n, right, at)]
            if BAD not in said and part and open_:
                out.append(_bad(open_, n - 1, right[open_[1] : there]))
                open_ = None
            at = there + len(part) if part else at
        if open_ and said and said[-1:] != BAD:
            out.append(_bad(open_, n, right[open_[1] : at]))
            open_ = None
    rest = right[open_[1] if open_ else at :]
    if open_:
        out.append(_bad(open_, len(pieces) - 1, rest if len(rest) <= len(open_[2]) else ""))
    elif rest:
        out.append(Difference(len(pieces) - 1, len(pieces) - 1, at, "end", "", rest))
    return out


def contents(chunks: list[Any]) -> list[str]:
    """Return the content that each chunk says, "" for one of another channel."""
    return [(one.data or b"").decode() if one.channel == CONTENT else "" for one in chunks]


def is_markup(text: str) -> bool:
    """Return whether a text may be a special token, which servers leave out: `<|eot|>`."""
    text = text.strip()
    return text[:1] + text[-1:] in ("<>", "[]", "<\uff5c", "\uff5c>")


def look_alike(one: str, other: str) -> bool:
    """Return whether two texts differ in no more than marks that are characters of their own, as in
    Unicode's NFC and NFD.

    >>> look_alike("Zoe\u0308", "Zo\xeb"), look_alike("Zoe", "Zo\xeb")
    (True, False)
    """
    bare = [[c for c in text if not "\u0300" <= c < "\u0370"] for text in (one, other)]
    same = len(bare[0]) == len(bare[1]) and all(
        a == b or (min(a, b) <= "\x7f" < max(a, b)) for a, b in zip(*bare)
    )
    return same and len(one) + len(other) > 2 * len(bare[0])


def first_rows(chunks: list[int]) -> dict[int, int]:
    """Return the number of the first row of each chunk."""
    first: dict[int, int] = {}
    for n, number in enumerate(chunks):
        first.setdefault(number, n)
    return first


def _bad(open_: Any, last: int, right: str) -> Difference:
    return Difference(open_[0], last, open_[1], "bad", open_[2], right)


def _found_later(pieces: list[str], n: int, right: str, at: int) -> int:
    """Return where the text goes on with the pieces from `n`; -1 if it does not."""
    said = "".join(pieces[n : n + MOST_COMPARED]).split(BAD)[0]
    whole = len(said) <= MOST_COMPARED
    said = said[:MOST_COMPARED]
    there = right.find(said, at, at + MOST_GONE + len(said))
    # A few letters are found anywhere.
    if whole and len(said) < 4 and not right.endswith(said):
        return there if right.find(said, there + 1, at + MOST_GONE) < 0 else -1
    return there


def _came_again(pieces: list[str], n: int, right: str, at: int) -> int:
    """Return the number behind the pieces from `n` that say what came before them again, so that
    the next piece goes on with the text; `n` if they do not.
    """
    said = ""
    for last in range(n, min(len(pieces), n + MOST_COMPARED)):
        said += pieces[last]
        after = pieces[last + 1] if last + 1 < len(pieces) else ""
        if said == right[max(0, at - len(said)) : at] and (
            last == n or right[at : at + len(after)] == after
        ):
            return last + 1
    return n


def _other(pieces: list[str], n: int, right: str, at: int) -> Difference:
    got, rest = "".join(pieces[n:]), right[at:]
    same = 0
    while same < min(len(got), len(rest)) and got[-1 - same] == rest[-1 - same]:
        same += 1
    begin = len(got) - same, len(rest) - same
    return Difference(n, n, at, "other", got[: begin[0]], rest[: begin[1]])
