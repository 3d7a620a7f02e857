"""Whether the events of a stream are all there, once, and in order: by their numbers, counts and
times, and by where the answer begins.

In: events, in order, and the chunks made of them. Out: (number of an event, what is wrong with it),
as in `Facts` (imported.py).
"""

import json
from typing import Any, Iterator

from .alike import Same, Texts, created_in
from .compare import contents
from .event_shapes import find
from .parse import object_at, parse_json
from .times import DAY, KEYS, since_first, stamp_of, steps_of

OF_SESSION = ("session.", "conversation.", "input_audio_buffer.", "rate_limits.")
LEAST_SAME = 4  # bytes that two beginnings of an answer have in common, or two pieces
LEAST_ALIKE = 3  # pieces
LEAST_COUNTS = 8
COUNTS = "tokens_predicted|usage.completion_tokens"
LEAST_PADDING = 6
LEAST_PAIRS = 3
MOST_QUOTED = 300
SET_BACK = 0.01  # seconds
MOST_DIGITS = 10  # of an id that counts; others are times
MOST_MISSING = 1000  # numbers that are looked for behind a gap


def order_of(
    events: list[Any], chunks: list[Any], by_line: dict[int, str]
) -> tuple[list[tuple[int, str]], dict[str, str]]:
    """Return the `numbers` and `told` of `Facts`. `by_line` is what `by_ids` has found."""
    its = zip(events, _numbered(events)) if by_line else ()
    numbers = [(n, by_line[event.line]) for event, (n, _) in its if event.line in by_line]
    if numbers:
        return numbers, {}
    numbers = _numbered_wrong(events) or _counted_twice(events)
    numbers = numbers or _stamped_twice(events, chunks) or _stamped_back(events)
    numbers = numbers or _doubled(events, chunks) or _padded_twice(events)
    number = fields_of(events[0]).get("sequence_number") if events else None
    late = {"part": f" Its first event has the number {number}."}
    if type(number) is int and number > 1:
        return numbers, late
    if numbers:
        return numbers, {}
    begun, once = _begun_again(events, chunks)
    if begun:
        return [(n, "begun") for n in begun], {"begun-again": once}
    jumps = _jumps(events, chunks)
    counts = ", ".join([f"from {before} to {after}" for _, before, after in jumps])
    told = {"counted": f" The count goes {counts}."} if jumps else {}
    return [(n, "count") for n, _, _ in jumps], told


def times_of(events: list[Any]) -> "tuple[list[float] | None, dict[str, Any]]":
    """Return when each event came, in seconds since the first one, or None; and the "times" and
    "steps" of the source. Without "times", all are the same, or they say only the second in which
    an event was made.
    """
    stamps = [event.stamp for event in events]
    begin = _begin_of_answer(events)
    stamps[:begin] = [stamps[begin]] * begin if begin else []
    coarse = steps_of(stamps) if None not in stamps else 0.0
    found: Any = None
    for clock in ("lines",) + KEYS:
        if clock != "lines":
            stamps = [stamp_of(value_of(event), clock) for event in events]
            if len(stamps) > 2 and stamps[-1] is None:
                stamps[-1] = stamps[-2]  # an error has none
        times = since_first(stamps)
        if times is not None:
            steps = steps_of(stamps)
            said: dict[str, Any] = {"times": clock}
            said.update({"since": "answer"} if begin and clock == "lines" else {})
            back = _back(stamps, events)
            said.update({"back": back} if back else {})
            if not steps:
                return times, said
            said["steps"] = steps
            found = found or (times, said)
    if found:
        return found[0], found[1]
    coarse = coarse or float(_created_advances(events))
    return None, {"steps": coarse} if coarse else {}


def _back(stamps: list[Any], events: list[Any]) -> int:
    """Return the line of the first event whose clock has been set back; 0 if the last time is the
    latest one, or if clocks have passed midnight.
    """
    latest = max(stamps)
    if stamps[-1] > latest - SET_BACK or latest - min(stamps) > DAY / 2:
        return 0
    for n in range(1, len(stamps)):
        if stamps[n] < stamps[n - 1] - SET_BACK:
            return int(events[n].line)
    return 0


def _begin_of_answer(events: list[Any]) -> int:
    """Return how many events of OpenAI's Realtime API come before an answer: those of its session,
    which may have begun long before.
    """
    for n, event in enumerate(events):
        kind = fields_of(event).get("type")
        if not isinstance(kind, str) or not kind.startswith(OF_SESSION):
            return n
    return 0


def _created_advances(events: list[Any]) -> bool:
    """Return whether events say in which second each of them was made, not only the first."""
    stamps: list[int] = []
    for event in events:
        value = event.value
        lines = [value.line] if isinstance(value, Same) else []
        lines = value.lines[:1] + value.lines[-1:] if isinstance(value, Texts) else lines
        found = [value.get("created")] if isinstance(value, dict) else map(created_in, lines)
        stamps += [stamp for stamp in found if type(stamp) is int and stamp > 1e9]
    return stamps == sorted(stamps) and stamps[:1] != stamps[-1:]


def value_of(event: Any) -> Any:
    """Return the value of an event; for a similar event, the value of the shape."""
    return value_in(event.value)


def fields_of(event: Any) -> dict[str, Any]:
    """Return the value of an event, as `value_of` does; {} if it is no object."""
    return object_at(value_of(event))


def value_in(value: Any) -> Any:
    """Return the value of an event's value that may be a `Same` or `Texts`."""
    return value.shape.value if isinstance(value, (Same, Texts)) else value


def _numbered_wrong(events: list[Any]) -> list[tuple[int, str]]:
    """Return the events whose sequence number is not the next one."""
    numbered = []
    n = 1
    own = False
    for event in events:
        known = fields_of(event)
        number = known.get("sequence_number", known.get("seq"))
        own = own or "seq" in known
        if number is None and "token" in known:
            number = known.get("index")  # text-generation-inference
        count = 1
        its: list[Any] = [number]
        if isinstance(event.value, Texts):
            count = len(event.value.texts)
            its = event.value.numbers or [number] * count
        elif isinstance(event.value, Same) and event.value.number is not None:
            its = [event.value.number]
        if type(number) is int and known.get("type") != "error":
            numbered += [(n + more, number) for more, number in enumerate(its)]
        n += count
    out = _misplaced(numbered)
    # Some servers give all events the same number, and `seq` may count what is not here.
    return out if (4 if own else 2) * len(out) < len(numbered) else []


def by_ids(lines: list[bytes]) -> list[tuple[int, str]]:
    """Return (line, kind) of each event in an event stream that the `id:` of all of them tell:
    "twice" with the id and the data of an earlier one, "order" or "gap" if ids are numbers that
    count. If an id stands for two kinds of data, ids do not tell.

    >>> lines = [b"id: %d\\ndata: %d\\n" % (n, n) for n in (1, 2, 3, 5, 5, *range(6, 12))]
    >>> by_ids(b"\\n".join(lines).split(b"\\n"))
    [(14, 'twice'), (11, 'gap')]
    """
    if not any(line[:3] == b"id:" for line in lines):
        return []
    seen: dict[bytes, bytes] = {}
    begins: dict[bytes, int] = {}
    ids: list[tuple[int, bytes]] = []  # a dict of MicroPython has no order
    out: list[tuple[int, str]] = []
    name = data = b""
    begin = 0
    for n, line in enumerate(lines + [b""], 1):
        if line[:3] == b"id:":
            name = line[3:].strip()
        elif line[:5] == b"data:":
            data, begin = data + line, begin or n
        elif not line:
            if name and data and seen.setdefault(name, data) != data:
                return []
            if name and name not in begins:
                begins[name] = begin or n
                ids.append((begin or n, name))
            elif name and data and begins[name] != begin:
                out.append((begin, "twice"))
            name, data, begin = b"", b"", 0
    if not all(name.isdigit() and len(name) < MOST_DIGITS for _, name in ids):
        return out
    found = _misplaced([(line, int(name)) for line, name in ids])
    return out + found if LEAST_COUNTS * len(found) <= len(ids) else out


def _misplaced(numbered: list[tuple[int, int]]) -> list[tuple[int, str]]:
    """Return (place, kind) of each (place, number) whose number is not the next one."""
    out = []
    seen: set[int] = set()
    most = numbered[0][1] - 1 if numbered else 0
    gaps: dict[int, set[int]] = {}  # the numbers that are missing before an event
    for n, number in numbered:
        if number in seen:
            out.append((n, "twice"))
        elif number < most:
            out.append((n, "order"))
        elif number > most + 1:
            out.append((n, "gap"))
            gaps[n] = set(range(most + 1, min(number, most + MOST_MISSING)))
        seen.add(number)
        most = max(most, number)
    # A number that came later fills its gap.
    return [(n, kind) for n, kind in out if kind != "gap" or gaps[n] - seen]


def _counted_twice(events: list[Any]) -> list[tuple[int, str]]:
    """Return the events of llama-server and vLLM that came again, with the count of an earlier one.
    If a count stands for two texts, counts do not tell.
    """
    seen: dict[int, str] = {}
    out = []
    for n, event in enumerate(events, 1):
        value = fields_of(event)
        if not find(value, COUNTS):
            continue
        if value.get("stop") or _choice_of(value).get("finish_reason"):
            seen = {}  # another answer may follow
            continue
        if isinstance(event.value, Texts):
            return []  # one count for many
        value = event.value.whole() if isinstance(event.value, Same) else value
        count = find(value, COUNTS)[0]
        text = str((find(value, "content|choices[*].delta.content,reasoning_content") or [""])[0])
        if type(count) is int and count in seen:
            out.append((n, "twice"))
        if type(count) is not int or not text or seen.setdefault(count, text) != text:
            return []
    return out


def _numbered(events: list[Any]) -> Iterator[tuple[int, Any]]:
    """Yield (number of an event, its value); of many that were read together, the first's."""
    n = 1
    for event in events:
        yield n, event.value
        n += len(event.value.texts) if isinstance(event.value, Texts) else 1


def _stamped_twice(events: list[Any], chunks: list[Any]) -> list[tuple[int, str]]:
    """Return (number, "again") of each event that is an earlier one again, behind later ones: its
    `created_at` is the same, and finer than a millisecond. Right behind it, it counts if the server
    says that it made fewer tokens than there are events with text.
    """
    seen: dict[str, list[Any]] = {}
    known: dict[str, set[str]] = {}  # as JSON, of the stamps that came back
    last = ""
    total = fields_of(events[-1]).get("eval_count") if events else None
    too_many = type(total) is int and total < len(chunks)
    out = []
    for n, value in _numbered(events):
        if isinstance(value, Same) and "created_at" in value.shape.value:
            value = value.whole()
        stamp = object_at(value).get("created_at")
        stamp = stamp if isinstance(stamp, str) else ""
        fraction = stamp.partition(".")[2]
        if len(fraction) < 4 or not fraction[:4].isdigit():
            continue
        if stamp in seen and (last != stamp or stamp in known or too_many):
            if stamp not in known:
                known[stamp] = {json.dumps(one) for one in seen[stamp]}
            said = json.dumps(value)
            if (last != stamp or too_many) and said in known[stamp]:
                out.append((n, "again"))
            known[stamp].add(said)
        else:
            seen.setdefault(stamp, []).append(value)
        last = stamp
    return out


def _stamped_back(events: list[Any]) -> list[tuple[int, str]]:
    """Return (number, "order") of each event that was made before the one before it, and after
    which they go on in order: a clock that was set back goes on from there.
    """
    made = []
    for n, value in _numbered(events):
        if isinstance(value, dict) and isinstance(value.get("created_at"), str):
            made.append((n, value))
    out = []
    backs = 0
    for at in range(1, len(made)):
        (_, before), (n, value) = made[at - 1 : at + 1]
        if value["created_at"] >= before["created_at"]:
            continue  # as texts: reading each time takes longer than all the rest
        found = [stamp_of(one, "created_at") for _, one in made[at - 1 : at + 2]]
        stamps = [stamp for stamp in found if stamp is not None]
        if len(stamps) < len(found):
            return []
        backs += stamps[1] < stamps[0]
        if len(stamps) == 3 and stamps[1] < stamps[0] < stamps[2]:
            out.append((n, "order"))
    return out if backs == len(out) else []


def _padded_twice(events: list[Any]) -> list[tuple[int, str]]:
    """Return (number, "again") of each event that is the one before it again, with the same random
    padding: OpenAI's `obfuscation`.
    """
    out = []
    before: Any = None
    n = 0
    for event in events:
        value = event.value
        its = [value.line if isinstance(value, Same) else value]
        if isinstance(value, Texts):
            its = list(value.lines) or [None] * len(value.texts)
        for one in its:
            n += 1
            if one == before and one is not None:
                is_line = isinstance(one, bytes)
                value = parse_json(one[one.find(b"{") :].decode(), 0) if is_line else one
                padding = object_at(value).get("obfuscation")
                if isinstance(padding, str) and len(padding) >= LEAST_PADDING:
                    out.append((n, "again"))
            before = one
    return out


def _doubled(events: list[Any], chunks: list[Any]) -> list[tuple[int, str]]:
    """Return (number, "doubled") of each second event, if all events, also the first and the last,
    come as two that are the same. Of events that were read together, the texts tell so far.
    """
    together = any(isinstance(event.value, Texts) for event in events)
    first: Any = None
    count = 0
    for one in chunks if together else events:
        if together:
            its = one.texts.texts if one.texts else [(one.data or b"").decode()]
        else:
            its = [one.value.whole() if isinstance(one.value, Same) else one.value]
        for said in its:
            count += 1
            if count % 2 == 0 and said != first:
                return []
            first = said
    whole = count >= 2 * LEAST_PAIRS and count % 2 == 0
    return [(n, "doubled") for n in range(2, count + 1, 2)] if whole else []


def _begun_again(events: list[Any], chunks: list[Any]) -> tuple[list[int], str]:
    """Return the first event with text behind each event that begins the answer again, and the
    text of one of them: with the id of the first one, no end between them, and text that is the
    same as far as both go, or in several pieces.
    """
    begins: list[int] = []
    first = None
    ended = False
    for number, value in _numbered(events):
        opener, ends = _opener(value)
        if opener and (ended or opener != (first or opener)):
            return [], ""  # another answer
        if opener:
            first = opener
            begins.append(number)
        ended = ended or ends
    parts: list[list[Any]] = [[] for _ in begins]
    n = -1
    for chunk in chunks if len(begins) > 1 else ():
        while n + 1 < len(begins) and begins[n + 1] <= chunk.event:
            n += 1
        if n >= 0:
            parts[n].append(chunk)
    its = [part for part in parts if part]
    said = [b"".join([chunk.data or b"" for chunk in part]) for part in its]
    longest = max(said, key=len) if said else b""
    for part, text in zip(its, said):
        whole = text and (len(text) >= LEAST_SAME or len(part) > 1) and longest.startswith(text)
        if not whole and _pieces_alike(part, its[said.index(longest)]) < LEAST_ALIKE:
            return [], ""
    if len(its) < 2:
        return [], ""
    which = "The last one goes to the end" if ended and said[-1] == longest else "The longest one"
    once = "".join(contents(its[said.index(longest)]))
    return [part[0].event for part in its[1:]], f" {which}: “{quoted(once)}”." if once else ""


def _pieces_alike(one: list[Any], other: list[Any]) -> int:
    """Return how many pieces two texts have in common before they differ."""
    alike = 0
    for mine, theirs in zip(one, other):
        if mine.data != theirs.data or mine.texts or theirs.texts:
            break
        alike += 1
    return alike


def other_openers(events: list[Any]) -> set[int]:
    """Return which events, from 0, begin another answer than the one before: with another id."""
    first = ""
    out = set()
    for n, event in enumerate(events):
        value = event.value
        if isinstance(value, dict) and "choices" not in value and "message" not in value:
            continue
        opener = _opener(value)[0]
        if opener and first and opener != first:
            out.add(n)
        first = opener or first
    return out


def quoted(text: str) -> str:
    """Return a text, or the beginning of a long one."""
    return text if len(text) <= MOST_QUOTED else text[: MOST_QUOTED - 1] + "…"


def plural(count: int, name: str) -> str:
    """Return a count with the name of what it counts: 1 event, 2 events."""
    return f"{count} {name}{'s' * (count > 1)}"


def _opener(value: Any) -> tuple[str, bool]:
    """Return the id of the answer that an event begins, "" if it begins none; and whether an answer
    ends in it. Events of OpenAI's form begin one with a role and without text.
    """
    if isinstance(value, Same) and _delta_of(value.shape.value).get("role"):
        value = value.whole()
    value = value_in(value)
    if not isinstance(value, dict):
        return "", False
    message = value.get("message")
    if value.get("type") == "message_start" and isinstance(message, dict):
        return str(message.get("id") or ""), False
    if _choice_of(value).get("index"):
        return "", False  # only choice 0 is read
    if value.get("type") == "message_stop" or _choice_of(value).get("finish_reason"):
        return "", True
    delta = _delta_of(value)
    others = [key for key in delta if key != "role" and delta[key]]
    begins = delta.get("role") and not others
    return str(value.get("id") or "") if begins else "", False


def _choice_of(value: Any) -> dict[str, Any]:
    choices = object_at(value).get("choices")
    return object_at(choices[0]) if isinstance(choices, list) and choices else {}


def _delta_of(value: Any) -> dict[str, Any]:
    return object_at(_choice_of(value), "delta")


def _jumps(events: list[Any], chunks: list[Any]) -> list[tuple[int, int, int]]:
    """Return (event, count before it, its count) of each event with text at which the server's
    count of tokens goes up by several, though else by one, and its text is too short for them.
    """
    counts: list[tuple[int, int]] = []
    for number, given in _numbered(events):
        value = {} if isinstance(given, Texts) else value_in(given)
        if isinstance(given, Same) and "tokens_predicted" in value:
            value = given.whole()
        value = object_at(value)
        total = object_at(value, "usage").get("completion_tokens")
        total = value.get("tokens_predicted") if total is None else total
        if type(total) is int:
            counts.append((number, total))
    if len(counts) < LEAST_COUNTS:
        return []
    its = {chunk.event: chunk for chunk in chunks if chunk.channel == "content" and chunk.data}
    texts = {n: its[n].data.decode() for n in its}
    singles = [
        texts.get(counts[at][0], "")
        for at in range(1, len(counts))
        if counts[at][1] == counts[at - 1][1] + 1
    ]
    mean = len("".join(singles)) / max(1, len(singles))
    out = []
    for at in range(1, len(counts)):
        (n, before), (m, after) = counts[at - 1 : at + 1]
        step = after - before
        if step < 0:
            return []
        if step < 2 or n not in its or m not in its:
            continue
        # A character may be made of several tokens, and a server may send their texts together:
        # then it may do so elsewhere, too.
        one = len([letter for letter in texts[m] if letter > "\x7f"]) == 1 and step <= 4
        if one or len(its[m].tokens) > 1 or 2 * len(texts[m]) >= step * mean:
            return []
        out.append((m, before, after))
    return out if LEAST_COUNTS * len(out) <= len(singles) else []
