"""Who broke a recorded stream: the engine, a proxy, the client, nobody; and by which rule.

In: the chunks of a stream, and the rows that they were decoded to. Out: `Verdict`s, the worst
first, one for all similar places; sentence.py makes one sentence of them. If the rules do not
decide, the verdict is "unknown". A token that ends inside a character is not a fault.
"""

from typing import Any, NamedTuple

from .compare import contents, differences, first_rows, is_markup, look_alike
from .event_shapes import without_last
from .imported import (
    ESCAPED,
    HALF,
    HALVES_AS_BYTES,
    INVALID,
    REPEATED,
    REPLACED,
    SOME_IDS,
    named_fidelity,
)
from .mojibake import (
    CAUSES,
    CONSOLE,
    LATIN,
    TORN,
    is_about_lost,
)
from .parse import is_utf8
from .rows import Place, came, count_of, numbered, shown, texts_of
from .rules import BY_SIZE, LESS, OF_PROGRAMS, RULES, SIZE
from .sentence import LENGTHS, listed
from .servers import CONTENT
from .texts_judged import MISREAD, judge_misread, judge_names, judge_replaced

# who: "engine", "proxy", "client", "nobody" or "unknown" · rule: its name · said: what happened,
# and why it is who · places: a `Place` each; of a saved one, at most MOST_PLACES · count: of all
# places
Verdict = NamedTuple(
    "Verdict",
    [("who", str), ("rule", str), ("said", str), ("places", "list[Place]"), ("count", int)],
)

MOST_PLACES = 200
# What � in text mean that was not read as something else.
OF_LOST = ("maybe", "beside", "borders", "inside", "seam", "seam-of-messages", "seam-of-pieces")
AGAINST_TOKENS = ("token-alone", "whole-token", "dropped", "left-out", "missing")
# For kinds of differences: the fault of sequence numbers that explains it, its rule, and the rule
# without one.
KINDS = {
    "gone": ("gap", "lost", "pieces-lack"),
    "end": ("gap", "lost", "pieces-lack"),
    "more": ("twice", "twice", "repeated"),
    "other": ("order", "order", "differs"),
}
KINDS_OF_NUMBERS = {
    "gap": "lost", "twice": "twice", "order": "order", "again": "again", "begun": "begun-again",
    "count": "counted", "doubled": "doubled",
}  # fmt: skip
BAD = "\ufffd"
ORDER = ("engine", "proxy", "client", "unknown", "nobody")


def judge(
    found: Any, rows: list[Any], chunks: list[int], held: str, compares: bool
) -> list[Verdict]:
    """Return the verdicts on a stream. `chunks` has the number of each row's chunk, and `held` is
    the text that was held at the end. With `compares`, a server's text must be that of its tokens.
    """
    places: dict[str, list[Place]] = {}
    by_size = BY_SIZE.get(found.facts.told.get(SIZE, ""), {})

    def add(rule: str, place: Place) -> None:
        places.setdefault(by_size.get(rule, rule), []).append(place)

    _judge_joined(found, rows, add)
    rights = _judge_against_whole(found, rows, chunks, add)
    _judge_text(found, rows, rights, add)
    source = found.header.get("source") or {}
    joins = source.get("server") in OF_PROGRAMS or "Node printed" in str(source.get("format"))
    if joins and "parted" in places:
        places["parted-messages"] = places.pop("parted")
    _judge_tokens(found, rows, held, add)
    if compares:
        _judge_against_tokens(found, rows, chunks, held, add)
    texts = texts_of(rows)
    judge_names(texts, add)
    misread = judge_misread(texts, add)
    east = "" if misread else judge_replaced(texts, add)
    # What another encoding has no character for became a �.
    lost = {place.row for rule in MISREAD for place in places.get(rule, [])}
    for of_lost in OF_LOST if east else ("maybe",):
        left = [one for one in places.pop(of_lost, []) if not east and one.row not in lost]
        if left:
            places[of_lost] = left
    out = []
    for rule, where in places.items():
        who, said = RULES[rule]
        said += found.facts.told.get(rule, "")
        if rule in MISREAD:
            said = CAUSES[misread] + "." + said
            if misread == CONSOLE:
                said += " In PowerShell: [Console]::OutputEncoding = [Text.Encoding]::UTF8."
        elif rule == "misread-east":
            said = f"UTF-8 was read as {east}. The right text is not known here."
        elif rule in ("joined", "wrapped"):
            lines = listed([f"{first}–{last}" for first, last in found.facts.joined])
            of = f" of {found.facts.lines}" if found.facts.lines else ""
            torn = TORN if (rule, misread) == ("joined", LATIN) else ""
            said += f" Lines {lines}{of}.{torn}"
        # Misread text that goes on in the next row is one place.
        count = sum([place.right != "" for place in where]) if rule in MISREAD else len(where)
        out.append(Verdict(who, rule, said, where, count))
    # Sorted, because a dict of MicroPython has no order.
    out.sort(key=lambda one: (ORDER.index(one.who), one.places[0].row, one.rule))
    return out


def as_lists(verdicts: list[Verdict]) -> list[Any]:
    """Return verdicts as lists, because MicroPython writes no named tuples as JSON; each with what
    its rule leaves open (an entry of `LESS`, or ""). Saved verdicts do not have the last.
    """
    out = []
    for who, rule, said, places, count in verdicts:
        its = [list(place) for place in places[:MOST_PLACES]]
        out.append([who, rule, said, its, count, LESS.get(rule, "")])
    return out


def from_header(header: dict[str, Any], count: int) -> "list[Verdict] | None":
    """Return the verdicts saved in a stream's header, because the judged text may not be in the
    file; None if there are none. `count` is the number of rows.
    """
    try:
        out = []
        for one in header["verdicts"]:
            who, rule, said, places, times = one[:5]
            if who not in ORDER or not isinstance(said, str) or type(times) is not int:
                return None
            who = RULES[rule][0]  # an earlier version may have known less
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


def _judge_text(found: Any, rows: list[Any], rights: dict[int, Any], add: Any) -> None:
    """Judge the U+FFFD and halves of pairs in the text of servers. `rights` has what is known to be
    right: {row: (as it came, right)}.
    """
    source = found.header.get("source") or {}
    if not any(chunk.broken for chunk in found.chunks):
        return
    told = [(n, row) for n, row in numbered(rows) if row[6] is not None]
    seams = _rule_of_seams(source, [came(row) for _, row in told if row[5]])
    plain = any(chunk.plain and not chunk.broken for chunk in found.chunks)
    # Bytes beyond ASCII that no other could complete.
    inner = any(BAD in came(row)[1:-1] for _, row in told if row[5] == INVALID)
    meant = is_about_lost("".join(texts_of(rows)))
    # In an event of many tokens, the engine may have decoded each of them by itself. The token that
    # ends an answer may be counted too.
    single = 0 < found.facts.total <= sum([count_of(row) for _, row in told]) + 1
    for at, (n, row) in enumerate(told):
        broken = row[5]
        if not broken:
            continue
        text = came(row)
        if broken == HALF:
            add("half", Place(n, text, "", 0, 0))
        if BAD not in text or broken == HALF:
            continue
        seam = (at > 0 and text[:1] == BAD == came(told[at - 1][1])[-1:]) or (
            at + 1 < len(told) and text[-1:] == BAD == came(told[at + 1][1])[:1]
        )
        got, right = rights.get(n, ("", ""))
        known = right != "" and BAD not in right
        last = at + 1 == len(told) and BAD not in without_last(text, BAD) and not seam
        if last and text[-1:] == BAD and (found.end or {}).get("reason") in LENGTHS:
            rule = "cut-text"
        elif broken == REPEATED or (
            meant and n not in rights and broken in ((REPLACED,) if plain else (REPLACED, ESCAPED))
        ):
            rule = "maybe"
        elif broken == HALVES_AS_BYTES:
            rule = "cesu"
        elif broken == INVALID and not plain and inner:
            rule = "raw-all"
        elif broken == INVALID:
            rule = "raw-seam" if seam else "raw" if plain else "raw-all"
        elif BAD + BAD in text and broken != ESCAPED and "borders" in found.facts.told:
            rule = "borders"
        elif seam:
            rule = "seam-known" if known else seams
        elif broken == ESCAPED and plain:
            rule = "escaped"
        elif BAD + BAD in text and broken != ESCAPED:
            rule = "inside" if single or len(row[6]) == 1 else "beside"
        else:
            rule = "maybe"
        if known and rule in ("maybe", "beside"):
            rule = "known"
        add(rule, Place(n, got or text, right if got else "", 0, 0))


def _rule_of_seams(source: Any, texts: list[str]) -> str:
    """Return the rule for U+FFFD at the end of one event and the beginning of the next one."""
    # What a client received and printed may have passed a gateway.
    printed = str(source.get("format")).startswith("values that ")
    if source.get("server") not in OF_PROGRAMS and not printed:
        return "seam"
    # Half of a pair of UTF-16 is one �.
    more = any(text[:2] == BAD + BAD or text[-2:] == BAD + BAD for text in texts)
    return "seam-of-pieces" if more else "seam-of-messages"


def _judge_tokens(found: Any, rows: list[Any], held: str, add: Any) -> None:
    """Judge U+FFFD in the text of tokens or bytes, and the end."""
    exact = all(row[1][0] is not None for row in rows if row[6] is None)
    exact = exact and named_fidelity(found.header) != SOME_IDS
    not_raw = (found.header.get("source") or {}).get("server") != "detok bridge"
    for n, whole in numbered(rows):
        row = whole[1]
        if whole[6] is not None:
            continue
        text = shown(whole)
        data = bytes.fromhex(row[1])
        if BAD in text:
            rule = "model" if exact else "bytes"
            if b"\xef\xbf\xbd" in data:
                rule = "written" if row[0] is not None or not_raw else "written-bytes"
            add(rule, Place(n, text, "", 0, 0))
    if rows and rows[-1][6] is None and rows[-1][1][3] and BAD in held:
        reason = (found.end or {}).get("reason")
        rule = "cut-model" if exact and reason else "cut"
        if reason in LENGTHS:
            rule = "cut-length"
        elif reason == "cancelled":
            rule = "cut-stopped"
        add(rule, Place(n, held, "", 0, 0))


def _judge_against_tokens(
    found: Any, rows: list[Any], chunks: list[int], held: str, add: Any
) -> None:
    """Compare the text of a server with the tokens that came with it."""
    ends: list[tuple[int, int]] = []  # the end of each row's text, and the row
    ours = ""
    for n, row in numbered(rows):
        if row[2] != CONTENT:
            continue
        if row[6] is not None:
            return  # the tokens of a part are not known
        ours += shown(row)
        ends.append((len(ours), n))
    ours += held
    if not all(chunk.data is not None for chunk in found.chunks if chunk.channel == CONTENT):
        return  # there are tokens alone
    alone = all(chunk.channel == CONTENT for chunk in found.chunks)
    first = first_rows(chunks)
    places = [n for n, _ in numbered(rows)]
    begin = 0  # the differences are in order
    for one in differences(contents(found.chunks), ours):
        if one.kind == "bad":
            between = found.chunks[one.piece : one.last + 1]
            whole = all(
                _is_whole(chunk) for chunk in between if BAD.encode() in (chunk.data or b"")
            )
            rule = "whole-token" if whole else "token-alone"
            add(rule, Place(places[first.get(one.piece, 0)], one.got, one.right, 0, 0))
        elif one.kind in ("gone", "end") and alone:
            while begin < len(ends) and ends[begin][0] <= one.at:
                begin += 1
            its = []
            while begin < len(ends) and ends[begin][0] <= one.at + len(one.right):
                its.append(ends[begin][1])
                begin += 1
            if not its or is_markup(one.right):
                continue
            cut = any(not is_utf8(bytes.fromhex(rows[n][1][1])) for n in its)
            ended = (found.end or {}).get("reason")
            # The text of a stop string, or of the token that ends the answer, is left out.
            if one.kind == "gone" or cut or ended in LENGTHS:
                rule = "missing" if one.kind == "end" and cut else "dropped" if cut else "left-out"
                add(rule, Place(its[0], "", one.right, 0, 0))


def _judge_joined(found: Any, rows: list[Any], add: Any) -> None:
    """Judge the events whose lines were joined."""
    rule = "wrapped" if found.facts.wrapped else "joined"
    begins = {first for first, _ in found.facts.joined}
    places = [n for n, row in enumerate(rows) if row[3] in begins]
    # An event without text has no row: its place is the next event's, if there is no other.
    first = found.facts.joined[0][0] if begins else 0
    after = next((n for n, row in enumerate(rows) if row[3] >= first), len(rows) - 1)
    for at in places or [after] * bool(begins):
        add(rule, Place(at, "", "", 0, 0))


def _judge_against_whole(
    found: Any, rows: list[Any], chunks: list[int], add: Any
) -> dict[int, Any]:
    """Compare the pieces with the text that the server sent whole at the end. Return what the
    U+FFFD of rows stand for: {row: (as it came, right)}. Of a place in several rows, the first one
    has what came; for the others that is "".
    """
    whole = found.facts.all.lstrip()
    if not (whole or found.facts.numbers or found.facts.parted):
        return {}
    first = first_rows(chunks)
    pieces = contents(found.chunks)
    for n, piece in enumerate(pieces):
        pieces[n] = piece.lstrip()
        if pieces[n]:
            break
    rights: dict[int, Any] = {}
    numbers = {kind for _, kind in found.facts.numbers}
    found_out = list(differences(pieces, whole)) if whole else []
    mixed = len(numbers) > 1 and any(one.kind == "other" for one in found_out)
    twice = "twice" in numbers and any(one.kind == "more" for one in found_out)
    by_numbers = not whole or mixed or twice
    gaps = [event for event, kind in found.facts.numbers if kind == "gap"]
    for one in found_out:
        row = first.get(_piece_of(one, pieces, found.chunks, gaps), 0)
        if one.kind == "bad":
            for later in range(one.last, one.piece, -1):
                rights[first.get(later, row)] = ("", one.right)
            rights[row] = (one.got, one.right)
        elif by_numbers:
            continue
        # Servers take a stop string away from the end of the whole text.
        elif one.right.strip() or (one.got.strip() and one.at < len(whole)):
            kind, named, rule = KINDS[one.kind]
            rule = named if kind in numbers else rule
            if one.kind == "gone" and not one.at and "part" in found.facts.told:
                rule = "part"
            elif rule == "differs" and look_alike(one.got, one.right):
                rule = "forms"
            late = _late_rows(found, rows) if rule == "order" else []
            if len(late) < 2:
                add(rule, Place(row, one.got, one.right, 0, 0))
            else:
                for row in late:
                    add(rule, Place(row, shown(rows[row]), "", 0, 0))
    if by_numbers:
        _judge_numbers(found, rows, add)
    for number, letter in found.facts.parted:
        add("parted", Place(first.get(number, 0), _halves_of(letter), letter, 0, 0))
    return rights


def _piece_of(one: Any, pieces: list[str], chunks: list[Any], gaps: list[int]) -> int:
    """Return the piece of a difference: behind missing numbers, the first, also without text."""
    piece = int(one.piece)
    gap = max([event for event in gaps if event <= chunks[piece].event] + [0])
    while gap and one.kind == "gone" and not pieces[piece - 1] and chunks[piece - 1].event >= gap:
        piece -= 1
    return piece


def _judge_numbers(found: Any, rows: list[Any], add: Any) -> None:
    """Judge what the numbers of events tell."""
    n = 0
    places = [place for place, _ in numbered(rows)]
    for event, kind in found.facts.numbers:
        while n < len(rows) and rows[n][4] < event:
            n += 1
        if kind == "gap" and rows:
            add(KINDS_OF_NUMBERS[kind], Place(places[min(n, len(places) - 1)], "", "", 0, 0))
        elif n < len(rows) and rows[n][4] == event:
            add(KINDS_OF_NUMBERS[kind], Place(places[n], shown(rows[n]), "", 0, 0))


def _halves_of(letter: str) -> str:
    """Return the halves of the surrogate pair of a character, as JSON has them.

    >>> _halves_of("\\U0001f44d")
    '\\\\ud83d + \\\\udc4d'
    """
    above = ord(letter) - 0x10000
    return f"\\u{0xD800 + (above >> 10):04x} + \\u{0xDC00 + (above & 0x3FF):04x}"


def _late_rows(found: Any, rows: list[Any]) -> list[int]:
    """Return the rows of events behind a later number, one of those that follow each other."""
    late = [event for event, kind in found.facts.numbers if kind == "order"]
    begins = [event for n, event in enumerate(late) if not n or late[n - 1] != event - 1]
    return [n for n, row in enumerate(rows) if row[4] in begins]


def _is_whole(chunk: Any) -> bool:
    """Return whether the tokens of a chunk are whole characters by themselves."""
    pieces = [data for _, data in chunk.tokens]
    return bool(pieces) and None not in pieces and is_utf8(b"".join(pieces))
