"""What the model sent against what the page shows.

In: the true text and the page's text. Out: a list of differences, each with a name: dropped, duplicated, reordered, latin1,
changed. Markup, spaces and typographic quotes are not compared, because a chat page rightly changes them; letters, digits and
everything beyond ASCII are, because it must not.
"""

import re
from typing import NamedTuple

# What smart typography exchanges.
TYPOGRAPHY = dict.fromkeys(map(ord, "‘’‚“”„…–—«»•·\u00ad\ufeff"))
RESYNC = 6  # characters that must agree again before a difference is over
REACH = 2000  # how far a difference may reach
MOJIBAKE = re.compile(
    "[\u00c2-\u00f4][\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u203a\u20ac\u2122]+"
)


class Difference(NamedTuple):
    """One place where the page does not show what was sent: what kind, what was sent, what is shown, and the text before it."""

    kind: str
    sent: str
    shown: str
    before: str


def letters(text: str) -> str:
    """Return what rendering must not change: letters, digits, and whatever is not ASCII.

    >>> letters("**Grüß Gott**, 1 – 2\\n")
    'GrüßGott12'
    """
    return "".join([c for c in text.translate(TYPOGRAPHY) if c.isalnum() or (c > "\x7f" and not c.isspace())])


def unmarked(text: str) -> str:
    """Return Markdown's visible text, roughly: link addresses, fence languages and tags are not shown."""
    text = re.sub(r"(?m)^\s*(```|~~~).*$", "", text)
    text = re.sub(r"\]\([^)\s]*\)", "]", text)
    return re.sub(r"</?[A-Za-z][^<>]*>", "", text)


def misread(text: str, encoding: str) -> str:
    """Return what UTF-8 text becomes when its bytes are read as `encoding`; "" where they cannot be."""
    try:
        return text.encode("utf-8", "surrogatepass").decode(encoding)
    except UnicodeDecodeError:
        return "".join([b.decode(encoding, "replace").replace("\ufffd", chr(b[0])) for b in _bytes(text)])


def _bytes(text: str) -> list[bytes]:
    return [bytes([b]) for b in text.encode("utf-8", "surrogatepass")]


def latin1(text: str) -> list[str]:
    """Return the runs of `text` that are UTF-8 read one byte at a time, as Latin-1 or windows-1252: `Ã©`, `é¾œ`.

    A run counts when all of it reads back as UTF-8. French `voilà »` reads back too: who asks decides how many are enough.

    >>> latin1("café Ã© naïve")
    ['Ã©']
    """
    found = []
    for match in MOJIBAKE.finditer(text):
        for encoding in ("latin-1", "cp1252"):
            try:
                raw = match.group().encode(encoding)
            except UnicodeEncodeError:
                raw = b"".join([_one_byte(c) for c in match.group()])
            # The last character may be cut: the stream may have been.
            for end in range(len(raw), max(1, len(raw) - 3), -1):
                try:
                    raw[:end].decode("utf-8")
                except UnicodeDecodeError:
                    continue
                found.append(match.group()[:end])
                break
            else:
                continue
            break
    return found


def _one_byte(character: str) -> bytes:
    try:
        return character.encode("cp1252")
    except UnicodeEncodeError:
        return bytes([ord(character)]) if ord(character) < 256 else b"\xff"


def compare(true_text: str, shown: str, times: int = 1) -> list[Difference]:
    """Return where `shown`, which may have other text around it, differs from `true_text`; [] when it has all of it.

    `times` is how often the page must have it: twice when the user's own message repeats it.

    >>> compare("naïve 漢字", "You: hi Bot: naïve 漢字 Send")
    []
    >>> compare("one 漢字 two three", "one 字 two three")
    [Difference(kind='dropped', sent='漢', shown='', before='one')]
    """
    page = letters(shown)
    wanted = letters(true_text)
    if not wanted:
        return []
    plain = letters(unmarked(true_text))
    if page.count(wanted) >= times or (plain and page.count(plain) >= times):
        return []
    for encoding in ("latin-1", "cp1252"):
        wrong = letters(misread(true_text, encoding))
        if wrong != wanted and wrong in page:
            return [Difference("latin1", true_text[:60], misread(true_text, encoding)[:60], "")]
    # Whole copies are not what is wrong: look at what is left.
    if times > 1:
        page = page.replace(wanted, "\0", 1)
    best = min((_aligned(text, page) for text in {wanted, plain} if text), key=lambda found: sum(len(d.sent) + len(d.shown) for d in found))
    return best


def _start(wanted: str, page: str) -> int:
    """Where in the page the text begins: the place most of its pieces agree on."""
    for size in (RESYNC, 3, 1):
        start = _vote(wanted, page, min(size, len(wanted)))
        if start >= 0:
            return start
    return -1


def _vote(wanted: str, page: str, size: int) -> int:
    votes: dict[int, int] = {}
    for i in range(max(1, min(len(wanted) - size + 1, 400))):
        piece, j = wanted[i : i + size], -1
        if size < RESYNC and piece.isascii() and not wanted.isascii():
            continue
        for _ in range(8):
            j = page.find(piece, j + 1)
            if j < 0:
                break
            votes[j - i] = votes.get(j - i, 0) + 1
    if not votes:
        return -1
    most = max(votes.values())
    # The earliest offset that has a fair share: after a loss the offsets move on.
    return max(0, min(o for o, n in votes.items() if n == most or (n * 4 >= most and n > 1 and size == RESYNC)))


def _aligned(wanted: str, page: str) -> list[Difference]:
    j = _start(wanted, page)
    if j < 0:
        return [Difference("dropped", wanted[:60], "", "")]
    i = 0
    out: list[Difference] = []
    while i < len(wanted):
        if j < len(page) and wanted[i] == page[j]:
            i, j = i + 1, j + 1
            continue
        a, b = _resync(wanted, page, i, j)
        sent, shown = wanted[i : i + a], page[j : j + b]
        kind = _kind(sent, shown, wanted[:i])
        if kind:
            out.append(Difference(kind, sent[:60], shown[:60], wanted[max(0, i - 20) : i]))
        i, j = i + a, j + b
    # Text behind the end that repeats the end is doubled too.
    for size in range(min(40, len(wanted)), 0, -1):
        tail = wanted[-size:]
        if not tail.isascii() and page.startswith(tail, j) and size < len(wanted):
            out.append(Difference("duplicated", "", tail, wanted[-20:]))
            break
    return _reordered(out)


def _resync(wanted: str, page: str, i: int, j: int) -> tuple[int, int]:
    """How much of each side to leave out so that they agree again; the least of both together."""
    rest = len(wanted) - i
    for total in range(1, min(REACH, rest + len(page) - j) + 1):
        for a in range(min(total, rest) + 1):
            b = total - a
            piece = wanted[i + a : i + a + RESYNC]
            if piece and page.startswith(piece, j + b) and (len(piece) == RESYNC or a + len(piece) == rest):
                return a, b
        if total > 300 and total % 2:
            break
    # Nothing agrees any more. Only what was sent is known to be missing.
    following = page[j : j + rest]
    return rest, 0 if following.isascii() else len(following)


def _kind(sent: str, shown: str, before: str) -> str:
    if not sent:
        # The page's own words (a button, a time) between two paragraphs are not the model's.
        if before.endswith(shown) or shown * 2 == before[-2 * len(shown) :]:
            return "duplicated"
        return "" if shown.isascii() else ("duplicated" if shown in before[-400:] else "changed")
    if (shown and letters(misread(sent, "latin-1")) == shown) or (shown and letters(misread(sent, "cp1252")) == shown):
        return "latin1"
    if not shown:
        return "dropped"
    if sorted(sent) == sorted(shown):
        return "reordered"
    return "changed"


def _reordered(found: list[Difference]) -> list[Difference]:
    """A piece that is missing at one place and too much at another was moved."""
    out = list(found)
    for lost in found:
        for extra in found:
            if lost.kind == "dropped" and extra.kind in ("changed", "duplicated") and not extra.sent and lost.sent == extra.shown:
                if lost in out and extra in out:
                    out[out.index(lost)] = Difference("reordered", lost.sent, extra.shown, lost.before)
                    out.remove(extra)
    return out
