"""Compare what the model sent with what the page shows.

In: the true text and the page's text. Out: a list of differences, each of a kind: dropped,
duplicated, reordered, latin1, changed. Only letters, digits and characters beyond ASCII are
compared: a chat page may change markup, spaces and typographic quotes.
"""

import bisect
import html
import itertools
import re
import unicodedata
from typing import NamedTuple

from ..captures.mojibake import ARABIC, misread_runs
from .markup import markers

# Characters that smart typography replaces or inserts, and that nobody sees: places for breaks,
# controls of the direction of text (UAX 9), and the marks of text.js around what is rendered. The
# arrow goes back from a footnote.
TYPOGRAPHY = re.compile(
    "[‘’‚“”„…–—«»•·↩\u00ad\ufeff\u200b\u2060\u200e\u200f\u061c"
    "\ufff9\ufffb\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069]+"
)
NOT_LETTERS = re.compile(r"[\0-/:-@\[-`{-\x7f\s]+")  # ASCII but for letters and digits; all spaces
ENCODINGS = ("latin-1", "cp1252", "cp437", "cp850")  # in which UTF-8 is misread
RESYNC = 6  # how many characters must agree after a difference
REACH = 2000  # the most characters that a difference may have
LONGEST = 2000  # the most letters of a repeated beginning or end
SURE = 16  # letters in ASCII that no label repeats by chance
WHOLE = 40  # how many letters an answer needs so that its copy is no chance
SENTENCE_ENDS = tuple(".!?。！？।؟")


# Fenced code, and code in a line.
_CODE = re.compile(
    r"((?m:^[ >]*(?:```|~~~)).*?(?:(?m:^[ >]*(?:```|~~~)[ \t]*$)|\Z)|`[^`\n]+`)", re.DOTALL
)
_TAG = re.compile(r"</?([A-Za-z][\w-]*)[^<>]*>")
_HTML = frozenset(
    re.findall(
        r"\w+",
        "a abbr address article aside audio b bdi bdo blockquote body br button caption center cite code col colgroup dd del "
        "details dfn div dl dt em embed fieldset figcaption figure font footer form h1 h2 h3 h4 h5 h6 head header hr html i "
        "iframe img input ins kbd label legend li link main mark math menu meta nav noscript object ol optgroup option output p "
        "picture pre progress q rp rt ruby s samp script section select small source span strike strong style sub summary sup "
        "svg table tbody td textarea tfoot th thead time title tr tt u ul var video wbr",
    )
)


class Difference(NamedTuple):
    """One place where the page does not show what was sent, and the text before it."""

    kind: str
    sent: str
    shown: str
    before: str


def letters(text: str) -> str:
    """Return the characters that rendering must not change: letters, digits, and all beyond ASCII.

    >>> letters("**Grüß Gott**, 1 – 2\\n"), letters("u\\u0308 \\u2068é\\u2069") == "üé"
    ('GrüßGott12', True)
    """
    return NOT_LETTERS.sub("", unicodedata.normalize("NFC", TYPOGRAPHY.sub("", text)))


def unmarked(text: str) -> str:
    """Return roughly the visible text of Markdown.

    Link addresses and their titles, fence lines, comments, HTML's tags outside of code, and the
    numbers and boxes of lists are left out.

    >>> unmarked("1. [naïve](a/b) &amp; <b>漢</b>\\n- [x] done")
    '[naïve] & 漢\\ndone'
    >>> unmarked("List<String> and `<b>`, [a][1]\\n[1]: http://b.c 'Title'")
    'List<String> and `<b>`, [a]\\n'
    """
    parts = _CODE.split(text)
    return "".join([_code(part) if n % 2 else _unmarked(part) for n, part in enumerate(parts)])


def _code(text: str) -> str:
    """Return code without its fences."""
    return re.sub(r"(?m)^[ >]*(```|~~~).*$", "", text)


def _unmarked(text: str) -> str:
    """Return `unmarked` text that has no code."""
    text = re.sub(r"<!--.*?-->|(?m:^ {0,3}\[[^\]^][^\]]*\]: *\S+.*$)", "", text, flags=re.DOTALL)
    # A browser shows the number of a list item as a marker, and its box as a field.
    text = re.sub(r"(?m)^([ >]*)(\d+[.)]|[-*+])[ \t]+(\[[ xX]\] +)?", r"\1", text)
    text = re.sub(r"\](\([^)\s]*(\s+[\"'(][^)]*[\"')])?(?:\)|\Z)|\[[^\]]*\])", "]", text)
    return html.unescape(_TAG.sub(lambda tag: "" if _is_tag(tag) else tag.group(), text))


def _is_tag(tag: re.Match[str]) -> bool:
    """Return whether a tag is HTML's or that of a chat format; others are text."""
    return tag[1].lower() in _HTML or f"<{tag[1]}>" in markers()


def misread(text: str, encoding: str) -> str:
    """Return the UTF-8 bytes of `text`, decoded as `encoding`.

    A byte that `encoding` lacks is decoded as Latin-1.
    """
    data = text.encode("utf-8", "surrogatepass")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        each = [bytes([byte]) for byte in data]
        return "".join([b.decode(encoding, "replace").replace("\ufffd", chr(b[0])) for b in each])


def latin1(text: str) -> list[str]:
    """Return the runs of `text` that are UTF-8 read one byte at a time, as Latin-1, windows-1252 or
    a console's code page: `Ã©`, `é¾œ`, `├⌐`. A single run proves little (captures/mojibake.py).

    >>> latin1("café Ã© naïve")
    ['Ã©']
    """
    return [
        line[run.begin : run.end]
        for line in text.split("\n")
        for run in misread_runs(line)
        if run.encoding != ARABIC or len(run.right) > 1  # letters of Persian, by chance
    ]


# Formulas as models write them (TeX), diagrams and marks of footnotes, and what a page writes in a
# form of its own (text.js).
_FORMULA = re.compile(
    r"(?m:^```(?:mermaid|svg|plantuml|dot|graphviz)\b).*?(?m:^```)|\[\^[^\]\n]+\]:?|"
    r"\$\$.+?\$\$|\\\[.+?\\\]|\\\(.+?\\\)|\$(?=\S)[^$\n]*?(?<=\S)\$(?!\d)",
    re.DOTALL,
)
_RENDERED = re.compile("\ufff9[^\ufffb]*\ufffb")


def compare(true_text: str, shown: str, times: int = 1) -> list[Difference]:
    """Return where `shown` differs from `true_text`; [] if it has all of it.

    `shown` may have other text around it. `times` is how often it must contain the true text: twice
    if the user's message is the same text. Formulas and readings that the page has rendered are not
    compared.

    >>> compare("naïve 漢字", "You: hi Bot: naïve 漢字 Send")
    []
    >>> compare("one 漢字 two three", "one 字 two three")
    [Difference(kind='dropped', sent='漢', shown='', before='one')]
    >>> compare(r"Then $\\alpha^2$ is 4.", "Then \ufff9α2\ufffb is 4.")
    []
    """
    found = _compare(true_text, shown, times)
    if found and (lines := without_own(true_text, shown)) != shown:
        found = min(found, _compare(true_text, lines, times), key=_size)
    if found and _RENDERED.search(shown):
        rest = _compare(_FORMULA.sub("", true_text), _RENDERED.sub("", shown), times)
        return min(found, rest, key=_size)
    return found


def without_own(true_text: str, shown: str) -> str:
    """Return the page's text without the lines in ASCII that it repeats and that were not sent,
    such as a button above each piece of code.
    """
    lines, whole = shown.split("\n"), letters(true_text)
    own = {x for x in lines if lines.count(x) > 1 and x.isascii() and letters(x) not in whole}
    return "\n".join([x for x in lines if x not in own]) if own else shown


def _line_at(shown: str, at: int) -> tuple[str, int]:
    """Return the line with the page's letter `at`, and which of the line's letters it is."""
    for line in shown.split("\n"):
        count = len(letters(line))
        if at < count:
            return line, at
        at -= count
    return "", 0


def _are_twice(pieces: list[str], at: int, shown: str, space: str = "") -> list[str]:
    """Return the pieces that stand both before and after the page's letter `at`, on one line.

    Only that place counts: a prompt may repeat a piece too, and so may the answer itself. Between
    the copies of a short one there is `space`.
    """
    if not pieces:
        return []
    line, at = _line_at(shown, at)
    whole, short = letters(line), space.join(line.split())
    ends = range(len(short) + 1)
    cut = bisect.bisect(ends, at, key=lambda end: len(letters(short[:end]))) - 1
    sides = ((short[:cut], short[cut:]), (whole[:at], whole[at:]))
    return [
        piece
        for piece in pieces
        for before, after in [sides[len(piece) >= SURE]]
        if before.endswith(piece) and after.startswith(piece)
    ]


def is_rendered(true_text: str, shown: str) -> bool:
    """Return whether the page shows part of the text in a form of its own, as a formula."""
    return bool(_RENDERED.search(shown) and _compare(true_text, shown, 1))


def _compare(true_text: str, shown: str, times: int) -> list[Difference]:
    page = letters(shown)
    wanted = letters(true_text)
    if not wanted:
        return []
    plain = letters(unmarked(true_text))
    for whole in (wanted, plain):
        if whole and page.count(whole) >= times:
            return _doubled(whole, page, page.rindex(whole), shown, true_text.strip())
    for encoding in ENCODINGS:
        wrong = letters(misread(true_text, encoding))
        if wrong != wanted and wrong in page:
            return [Difference("latin1", true_text, misread(true_text, encoding), "")]
    # Compare with what is left when a complete copy is removed.
    if times > 1:
        page = page.replace(wanted, "\0" * len(wanted), 1)
    tried = [
        _aligned(text, page, shown, i, j, wanted)
        for text in {wanted: 0, plain: 0}
        if text
        for i, j in _anchors(text, page)
    ]
    nothing = [Difference("dropped", wanted, "", "")]
    return min(tried, key=_size, default=nothing)


def _size(found: list[Difference]) -> int:
    """Return how much differs. A long difference counts as 60 characters: it is one fault."""
    return sum([min(60, len(text)) for d in found for text in (d.sent, d.shown)])


def copies(true_text: str, shown: str, before: str | None = None) -> int:
    """Return how many more copies of a whole text stand directly behind the first one.

    The words around them, such as a name and a button, may be repeated with them if the page's text
    `before` it was asked is known: copies that it had do not count. A short text has no copies.

    >>> text = "A text of forty letters is long enough for a copy to be told."
    >>> copies(text, f"You: hi Bot: {text}\\n{text} Send")
    1
    >>> copies(text, f"Bot: {text} Copy Bot: {text} Copy", before="")
    1
    >>> copies(text, f"{text} Bot: {text}", before="")
    0
    """
    page = letters(shown)
    for whole in (letters(true_text), letters(unmarked(true_text))):
        places = [match.start() for match in re.finditer(re.escape(whole), page)]
        if len(whole) < WHOLE or len(places) < 2:
            continue
        known = before is not None
        count = 0
        for first, second in itertools.pairwise(places):
            between = page[first + len(whole) : second]
            if not between or (
                known and _is_repeated(between, page[:first], page[second + len(whole) :])
            ):
                count += 1
        return max(0, count - letters(before or "").count(whole))
    return 0


def _is_repeated(between: str, before: str, after: str) -> bool:
    """Return whether the words between two copies are those after the second and before the
    first.
    """
    return any(
        after.startswith(between[:i]) and before.endswith(between[i:])
        for i in range(len(between) + 1)
    )


def _anchors(wanted: str, page: str) -> list[tuple[int, int]]:
    """Return (place in the text, place in the page) pairs that match.

    They are of the distances on which most pieces of the text agree.
    """
    for size in (RESYNC, 3, 1):
        size = min(size, len(wanted))
        votes: dict[int, list[int]] = {}
        many = len(wanted) - size + 1
        for i in range(0, many, max(1, many // 1000)):
            piece, j = wanted[i : i + size], -1
            if size < RESYNC and piece.isascii() and not wanted.isascii():
                continue
            for _ in range(8):
                j = page.find(piece, j + 1)
                if j < 0:
                    break
                votes.setdefault(j - i, []).append(i)
        if votes:
            # More than one distance, because a repetitive text also matches its own later parts.
            most = sorted(votes, key=lambda distance: len(votes[distance]), reverse=True)[:4]
            return [(votes[distance][0], votes[distance][0] + distance) for distance in most]
    return []


def _aligned(wanted: str, page: str, shown: str, i: int, j: int, marked: str) -> list[Difference]:
    """Return the differences of two texts, of which `wanted[i]` and `page[j]` match. The page may
    add what Markdown leaves out of `marked`, such as a comment.
    """
    places = _places(wanted, page, i, j)
    begin = places[0][2] - places[0][0] if places else j - i
    out = _doubled_begin(wanted, page, max(0, begin), shown)
    for start, end, first, last in places:
        sent, got = wanted[start:end], page[first:last]
        kind = _kind(sent, got, wanted[:start], wanted[end:])
        left_out = not sent and got in marked and got not in wanted
        if kind and (not left_out or _repeats(got, wanted[:start], wanted[end:])):
            out.append(Difference(kind, sent, got, wanted[max(0, start - 20) : start]))
    end = places[-1][3] + len(wanted) - places[-1][1] if places else j + len(wanted) - i
    return _reordered(out + _doubled_end(wanted, page, end, shown))


def _repeats(added: str, before: str, after: str) -> bool:
    """Return whether added text begins with the letters before it, or ends with those after it."""
    for size in range(4, min(LONGEST, len(added)) + 1):
        if before.endswith(added[:size]) or after.startswith(added[-size:]):
            return True
    return False


def _places(wanted: str, page: str, i: int, j: int) -> list[tuple[int, int, int, int]]:
    """Return the begin and end of each difference in `wanted`, and then in `page`."""
    # From the anchor to the beginning, in the reversed texts, and from the anchor to the end.
    places = [
        (i - a - b, i - a, j - c - d, j - c)
        for a, b, c, d in _walk(wanted[:i][::-1], page[:j][::-1])
    ][::-1]
    return places + [
        (i + a, i + a + b, j + c, j + c + d) for a, b, c, d in _walk(wanted[i:], page[j:])
    ]


def insertions(wanted: str, page: str) -> list[tuple[str, str]]:
    """Return what the page has inside a text that it has otherwise: pairs of the letters before it
    and those that were added. [] if other letters differ too.

    >>> insertions("onetwothreefourfivesix", "onetwothree22fourfivesix")
    [('onetwothree', '22')]
    """
    if wanted in page:
        return []
    for i, j in _anchors(wanted, page):
        places = _places(wanted, page, i, j)
        if all(begin == end for begin, end, _, _ in places):
            return [(wanted[max(0, a - 20) : a], page[c:d]) for a, _, c, d in places]
    return []


def _doubled(wanted: str, page: str, begin: int, shown: str, sent: str) -> list[Difference]:
    """Return where the page repeats the beginning or the end of a text that it has as a whole, and
    that was sent as `sent`.
    """
    end = begin + len(wanted)
    # A button on the next line may be an emoji, or begin with the answer's last word, and a prompt
    # there may begin as a title ends. A title is one line, and no sentence if it is long.
    most = 7
    if "\n" not in sent and len(wanted) < WHOLE:
        most = len(wanted)
    elif "\n" not in sent and len(wanted) <= 2 * WHOLE and not sent.endswith(SENTENCE_ENDS):
        most = 2 * SURE
    found = _doubled_end(wanted, page, end, shown)
    found = [x for x in found if len(x.shown) > most or _are_twice([x.shown], end, shown)]
    return _doubled_begin(wanted, page, begin, shown) + found


def _doubled_end(wanted: str, page: str, end: int, shown: str) -> list[Difference]:
    """Return the difference if the page repeats the end of the text after it.

    A short repetition does not count: it may be the page's own next word.
    """
    sizes = range(min(LONGEST, len(wanted) - 1), 0, -1)
    tails = [wanted[-size:] for size in sizes if page.startswith(wanted[-size:], end)]
    doubled = [tail for tail in tails if not tail.isascii()]
    doubled = [tail for tail in doubled if len(tail) > 3 or max(tail) > "\uffff"]
    doubled = doubled or _are_twice([x for x in tails if len(x) >= SURE], end, shown)
    return [Difference("duplicated", "", tail, wanted[-20:]) for tail in doubled[:1]]


def _doubled_begin(wanted: str, page: str, begin: int, shown: str) -> list[Difference]:
    """Return the difference if the page repeats the beginning of the text before it, on one line.
    What stands apart may be a label, or a preview.
    """
    sizes = range(min(LONGEST, len(wanted) - 1), 3, -1)
    heads = [wanted[:size] for size in sizes if page.endswith(wanted[:size], 0, begin)]
    sure = [head for head in heads if len(head) >= SURE or not head.isascii()]
    doubled = _are_twice(sure, begin, shown, space=" ")
    # Where a text repeats itself and the next line does so too, it may begin earlier on the page.
    line, at = _line_at(shown, begin) if doubled else ("", 0)
    line = letters(line)[: at + len(wanted)]
    doubled = [head for head in doubled if line[at - len(head) :] not in wanted]
    return [Difference("duplicated", "", head, "") for head in doubled[:1]]


def _walk(wanted: str, page: str) -> list[tuple[int, int, int, int]]:
    """Return where the two differ: offset and length in `wanted`, then offset and length in `page`.

    Text of the page after the end of `wanted` is ignored.
    """
    i = j = 0
    out = []
    while i < len(wanted):
        if j < len(page) and wanted[i] == page[j]:
            i, j = i + 1, j + 1
            continue
        a, b = _resync(wanted, page, i, j)
        out.append((i, a, j, b))
        i, j = i + a, j + b
    return out


def _resync(wanted: str, page: str, i: int, j: int) -> tuple[int, int]:
    """Return how many characters to skip on each side, in total as few as possible, so that the two
    agree again.
    """
    rest, most, best = len(wanted) - i, REACH, None
    for a in range(min(most, rest) + 1):
        if a > most:
            break
        piece = wanted[i + a : i + a + RESYNC]
        # The rest of a text, shorter than that, is found far away by chance.
        reach = (most if len(piece) == RESYNC else min(most, 300)) - a
        at = page.find(piece, j, j + reach + len(piece)) if piece and reach >= 0 else -1
        if at >= 0:
            best, most = (a, at - j), a + at - j - 1
    if best:
        return best
    # They never agree again. Only the text that was sent is certainly missing.
    following = page[j : j + rest]
    return rest, 0 if following.isascii() else len(following)


def _kind(sent: str, shown: str, before: str, after: str) -> str:
    """Return the kind of a difference; "" if it is the page's own text."""
    if not sent:
        if before.endswith(shown) or after.startswith(shown):
            return "duplicated"
        if shown.isascii():
            return ""  # the page may have words (a button, a time) between two paragraphs
        if latin1(shown):
            return "latin1"
        return "duplicated" if shown in before[-400:] else "changed"
    if shown and any(letters(misread(sent, encoding)) == shown for encoding in ENCODINGS):
        return "latin1"
    if sent and sent in shown:  # it is there, among the page's own words
        first, _, last = shown.partition(sent)
        return _kind("", first, before, sent + after) or _kind("", last, before + sent, after)
    if not shown:
        return "dropped"
    if sorted(sent) == sorted(shown):
        return "reordered"
    return "changed"


def _reordered(found: list[Difference]) -> list[Difference]:
    """Replace pairs of a dropped and an additional piece by one reordered piece."""
    out = list(found)
    added = [d for d in found if d.kind in ("changed", "duplicated") and not d.sent]
    for lost in [d for d in found if d.kind == "dropped"]:
        for extra in added:
            if lost.sent == extra.shown and lost in out and extra in out:
                out[out.index(lost)] = lost._replace(kind="reordered", shown=extra.shown)
                out.remove(extra)
    return out
