"""Who broke a recorded stream: the engine, a proxy, the client, nobody; and by which rule.

In: the chunks of a stream, the rows that they became, and the text of those. Out: `Verdict`s, the
worst first, one for all similar places; and one sentence for the whole stream. If the rules do not
decide, the verdict is "unknown". A token that ends inside a character is not a fault.
"""

from typing import Any, NamedTuple

from .log import is_utf8
from .mojibake import CAUSES, CONSOLE, find_misread
from .servers import CONTENT
from .stream import ESCAPED, HALF, INVALID

# who: "engine", "proxy", "client", "nobody" or "unknown" · rule: its name · said: what happened,
# and why it is who · places: a `Place` each, at most MOST_PLACES · count: of all places
Verdict = NamedTuple(
    "Verdict",
    [("who", str), ("rule", str), ("said", str), ("places", "list[Place]"), ("count", int)],
)
# row: from 0 · got: the text as it came · right: the right text, "" if it is not known · begin and
# end: of the text that is wrong without a U+FFFD, in the row's text, in UTF-16 units; 0 if there
# is none
Place = NamedTuple(
    "Place",
    [("row", int), ("got", str), ("right", str), ("begin", int), ("end", int)],
)

MOST_PLACES = 200
MOST_OF_A_TOKEN = 8  # characters
AGAINST_TOKENS = ("token-alone", "whole-token")
BAD = "\ufffd"
ORDER = ("engine", "proxy", "client", "unknown", "nobody")
RULES = {
    "token-alone": (
        "engine",
        "The engine decoded each token by itself: its text has � where a token ends inside a character, and the tokens have the right bytes.",
    ),
    "whole-token": (
        "proxy",
        "Something after the engine broke the text: the bytes of the tokens are whole characters, and the text beside them has �.",
    ),
    "seam": (
        "engine",
        "The engine decoded each token by itself: the pieces of one character are � at the end of one event and at the beginning of the next.",
    ),
    "inside": (
        "proxy",
        "A proxy decoded each chunk of the network by itself: the pieces of one character are � within one event, which has one token.",
    ),
    "escaped": (
        "engine",
        "The engine, or a gateway that writes its JSON anew, wrote the � as \\ufffd, and other characters as they are: so does Go's JSON with bytes that are not UTF-8.",
    ),
    "raw-seam": (
        "engine",
        "The engine wrote the bytes of each token into an event of its own: they are not UTF-8 by themselves.",
    ),
    "raw": (
        "proxy",
        "Bytes of a character were lost or changed after the engine had written them: what arrived is not UTF-8.",
    ),
    "raw-all": (
        "unknown",
        "No character beyond ASCII in this file is UTF-8: it was saved in another encoding, such as Windows-1252, or the bytes were broken on their way.",
    ),
    "half": (
        "engine",
        "The engine, or a gateway that writes its JSON anew, cut the text by UTF-16 units: half a character (a surrogate) arrived without the other.",
    ),
    "maybe": (
        "unknown",
        "The text has a �: broken before it was recorded, or written by the model. The text alone does not say which.",
    ),
    "misread": ("client", ""),
    "model": (
        "nobody",
        "The model wrote bytes that are not UTF-8: its tokens are exact, and nothing changed them.",
    ),
    "bytes": ("unknown", "The bytes that arrived are not UTF-8. They do not say who broke them."),
    "written-bytes": (
        "unknown",
        "The bytes EF BF BD are a �: written by the model, or broken before they came.",
    ),
    "cut-length": (
        "nobody",
        "The answer ended inside a character, at its limit of tokens.",
    ),
    "cut-model": ("nobody", "The model ended its answer inside a character."),
    "cut-stopped": ("nobody", "The answer was stopped inside a character."),
    "cut": (
        "unknown",
        "The stream ended inside a character: the engine ended it so, or the connection did.",
    ),
    "written": ("nobody", "The model wrote a �: the bytes EF BF BD are its own."),
}  # fmt: skip


def judge(
    found: Any, rows: list[Any], chunks: list[int], held: str, compares: bool
) -> list[Verdict]:
    """Return the verdicts on a stream. `chunks` has the number of each row's chunk, and `held` is
    the text that was held at the end. With `compares`, a server's text must be that of its tokens.
    """
    places: dict[str, list[Place]] = {}

    def add(rule: str, place: Place) -> None:
        places.setdefault(rule, []).append(place)

    _judge_text(found, rows, add)
    _judge_tokens(found, rows, held, add)
    if compares:
        _judge_against_tokens(found, rows, chunks, held, add)
    misread = _judge_misread(rows, add)
    out = []
    for rule, where in places.items():
        who, said = RULES[rule]
        if rule == "misread":
            said = CAUSES[misread] + "."
            if misread == CONSOLE:
                said += " In PowerShell: [Console]::OutputEncoding = [Text.Encoding]::UTF8."
        out.append(Verdict(who, rule, said, where[:MOST_PLACES], len(where)))
    # Sorted, because a dict of MicroPython has no order.
    out.sort(key=lambda one: (ORDER.index(one.who), one.places[0].row, one.rule))
    return out


def sentence(verdicts: list[Verdict], fidelity: str) -> str:
    """Return the verdict on a whole stream in one sentence."""
    broken = [one for one in verdicts if one.who != "nobody"]
    if broken:
        counts: dict[str, int] = {}
        for one in broken:
            counts[one.who] = counts.get(one.who, 0) + one.count
        return " ".join([_blame(who, counts[who]) for who in ORDER if who in counts])
    if fidelity == "text":
        return (
            "Nothing in it is broken. It is the server's own text: omissions cannot be seen here."
        )
    if verdicts:
        return "Nobody broke anything. " + " ".join([one.said for one in verdicts])
    return "Nobody broke anything: every character is whole."


def as_lists(verdicts: list[Verdict]) -> list[Any]:
    """Return verdicts as lists, because MicroPython writes no named tuples as JSON."""
    return [
        [one.who, one.rule, one.said, [list(place) for place in one.places], one.count]
        for one in verdicts
    ]


def from_header(header: dict[str, Any], count: int) -> "list[Verdict] | None":
    """Return the verdicts saved in a stream's header, because the judged text may not be in the
    file; None if there are none. `count` is the number of rows.
    """
    try:
        out = []
        for who, rule, said, places, times in header["verdicts"]:
            if RULES[rule][0] != who or not isinstance(said, str) or type(times) is not int:
                return None
            made = [Place(*place) for place in places]
            if not made or not all(_is_valid(place, count) for place in made):
                return None
            out.append(Verdict(who, rule, said, made, times))
        return out
    except (KeyError, TypeError, ValueError):
        return None


def _is_valid(place: Place, count: int) -> bool:
    numbers = (place.row, place.begin, place.end)
    texts = (place.got, place.right)
    return (
        all(type(n) is int and n >= 0 for n in numbers)
        and all(isinstance(text, str) for text in texts)
        and place.row < count
    )


def _blame(who: str, count: int) -> str:
    places = "1 place" if count == 1 else f"{count} places"
    if who == "unknown":
        return f"Broken in {places}, by whom is not known."
    name = {"engine": "The engine", "proxy": "A proxy", "client": "The client"}[who]
    return f"{name} broke {places}."


def _judge_text(found: Any, rows: list[Any], add: Any) -> None:
    """Judge the U+FFFD and halves of pairs in the text of servers."""
    shown = [n for n in range(len(rows)) if rows[n][6] is not None]
    plain = any(chunk.plain and not chunk.broken for chunk in found.chunks)
    texts = {n: bytes.fromhex(rows[n][1][1]).decode() for n in shown}
    # In an event of many tokens, the engine may have decoded each of them by itself.
    sizes = sorted([len(text) for text in texts.values()])
    short = bool(sizes) and sizes[len(sizes) // 2] <= MOST_OF_A_TOKEN
    for at, n in enumerate(shown):
        text, broken = texts[n], rows[n][5]
        if broken == HALF:
            add("half", Place(n, text, "", 0, 0))
        if BAD not in text or not broken or broken == HALF:
            continue
        seam = (at > 0 and text[:1] == BAD == texts[shown[at - 1]][-1:]) or (
            at + 1 < len(shown) and text[-1:] == BAD == texts[shown[at + 1]][:1]
        )
        if broken == INVALID:
            rule = "raw-seam" if seam else "raw" if plain else "raw-all"
        elif seam:
            rule = "seam"
        elif broken == ESCAPED and plain:
            rule = "escaped"
        elif BAD + BAD in text and broken != ESCAPED and short:
            rule = "inside"
        else:
            rule = "maybe"
        add(rule, Place(n, text, "", 0, 0))


def _judge_tokens(found: Any, rows: list[Any], held: str, add: Any) -> None:
    """Judge U+FFFD in the text of tokens or bytes, and the end."""
    exact = all(row[1][0] is not None for row in rows if row[6] is None)
    not_raw = (found.header.get("source") or {}).get("server") != "detok bridge"
    for n, (_, row, _, _, _, _, ids) in enumerate(rows):
        if ids is not None:
            continue
        text = "".join([text for _, text, *_ in row[2]])
        data = bytes.fromhex(row[1])
        if BAD in text:
            rule = "model" if exact else "bytes"
            if b"\xef\xbf\xbd" in data:
                rule = "written" if row[0] is not None or not_raw else "written-bytes"
            add(rule, Place(n, text, "", 0, 0))
    last = len(rows) - 1
    if rows and rows[last][6] is None and rows[last][1][3] and BAD in held:
        reason = (found.end or {}).get("reason")
        rule = "cut-model" if exact and reason else "cut"
        if reason in ("length", "max_tokens", "limit", "MAX_TOKENS", "incomplete"):
            rule = "cut-length"
        elif reason == "cancelled":
            rule = "cut-stopped"
        add(rule, Place(last, held, "", 0, 0))


def _judge_against_tokens(
    found: Any, rows: list[Any], chunks: list[int], held: str, add: Any
) -> None:
    """Compare the text of a server with the tokens that came with it."""
    first: dict[int, int] = {}
    ours = ""
    for n, row in enumerate(rows):
        if row[2] != CONTENT:
            continue
        if row[6] is not None:
            return  # the tokens of a part are not known
        first.setdefault(chunks[n], n)
        ours += "".join([text for _, text, *_ in row[1][2]])
    ours += held
    at = 0
    open_ = None  # a character whose pieces came as U+FFFD: its row, its place, the text, whole
    for number, chunk in enumerate(found.chunks):
        said = (chunk.data or b"").decode() if chunk.channel == CONTENT else ""
        if open_ is None and ours[at : at + len(said)] == said:
            at += len(said)
            continue
        if BAD in said:
            row, begin, got, whole = open_ or (first.get(number, 0), at, "", True)
            open_ = (row, begin, got + said, whole and _is_whole(chunk))
        for n, part in enumerate(said.split(BAD)):
            loose = 4 if n or (open_ and open_[2] != said) else 0
            there = ours.find(part, at, at + len(part) + loose)
            if there < 0:
                return
            if BAD not in said and part and open_:
                _close(open_, ours[open_[1] : there], add)
                open_ = None
            at = there + len(part) if part else at
        if open_ and said and said[-1:] != BAD:
            _close(open_, ours[open_[1] : at], add)
            open_ = None
    if open_:
        rest = ours[open_[1] :]
        _close(open_, rest if len(rest) <= len(open_[2]) else "", add)


def _close(open_: Any, right: str, add: Any) -> None:
    row, _, got, whole = open_
    add("whole-token" if whole else "token-alone", Place(row, got, right, 0, 0))


def _is_whole(chunk: Any) -> bool:
    """Return whether the tokens of a chunk are whole characters by themselves."""
    pieces = [data for _, data in chunk.tokens]
    return bool(pieces) and None not in pieces and is_utf8(b"".join(pieces))


def _judge_misread(rows: list[Any], add: Any) -> str:
    """Judge text that is UTF-8 read in another encoding; return in which, "" if there is none."""
    texts = []
    for row in rows:
        texts.append("".join([text for _, text, *_ in row[1][2]]) if row[6] is not None else "")
    runs = find_misread("".join(texts))
    n = begin = 0
    for run in runs:
        while begin + len(texts[n]) <= run.begin:
            begin += len(texts[n])
            n += 1
        text = texts[n]
        first, last = run.begin - begin, min(run.end - begin, len(text))
        units = [_units(text[:first]), _units(text[:last])]
        got = "".join(texts[n : n + 8])[first : run.end - begin]
        add("misread", Place(n, got, run.right, units[0], units[1]))
        # A run may go on in the next rows.
        over, m = run.end - begin - len(text), n + 1
        while over > 0:
            size = min(over, len(texts[m]))
            if size:
                add("misread", Place(m, texts[m][:size], "", 0, _units(texts[m][:size])))
            over -= size
            m += 1
    return runs[0].encoding if runs else ""


def _units(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text) + sum([letter > "\uffff" for letter in text])
