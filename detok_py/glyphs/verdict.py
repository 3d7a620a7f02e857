"""The verdict on what was seen: which rules it breaks, in axe's format.

In: findings of the watcher, the page's text, and the true text if it is known. Out: `{"violations",
"incomplete", "passes"}`. A violation is a fault that a reader could see. Incomplete is what a
person has to judge; it never fails a check. `report` writes a verdict for people and programs.
"""

import re
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import __version__
from .held import held
from .truth import Difference, compare, latin1, letters, unmarked

if TYPE_CHECKING:
    from .traffic import Answer


class Rule(NamedTuple):
    """How bad a violation is (in axe's words), what it is, and whether it fails a check."""

    impact: str
    description: str
    fails: bool = True


RULES = {
    "ufffd-persistent": Rule("critical", "U+FFFD, the replacement character, stays on the page"),
    "ufffd-painted": Rule("serious", "U+FFFD was painted, and then replaced"),
    "lone-surrogate": Rule(
        "serious", "half of a UTF-16 pair was shown; it paints the same glyph as U+FFFD"
    ),
    "ufffd-canvas": Rule("serious", "U+FFFD was drawn on a canvas"),
    "ufffd-value": Rule("serious", "U+FFFD is in the value of a field"),
    "ufffd-attribute": Rule(
        "serious",
        "U+FFFD is in an attribute, which a screen reader, a tooltip or a style sheet may show",
    ),
    "ufffd-css": Rule(
        "serious", "U+FFFD is in generated content (`content` of ::before, ::after, ::marker)"
    ),
    "ufffd-title": Rule("serious", "U+FFFD is in the document's title"),
    "latin1-mojibake": Rule("critical", "UTF-8 bytes were read as Latin-1 or windows-1252"),
    "dropped-text": Rule("critical", "characters that were sent are not on the page"),
    "duplicated-text": Rule("critical", "characters that were sent once are on the page twice"),
    "reordered-text": Rule(
        "critical", "characters that were sent are on the page in another order"
    ),
    "changed-text": Rule("critical", "the page shows other characters than were sent"),
    "upstream-broken": Rule(
        "critical", "U+FFFD or half a pair was already in what the engine sent"
    ),
    "held-too-long": Rule("serious", "text was shown later after its arrival than was allowed"),
    "held-text": Rule(
        "minor", "text that had arrived whole was held back before it was shown", fails=False
    ),
    "ufffd-unpainted": Rule(
        "minor", "a broken glyph came and went without being painted", fails=False
    ),
    "latin1-suspected": Rule(
        "moderate", "this may be UTF-8 read as Latin-1; too little of it to be sure", fails=False
    ),
    "tofu": Rule("minor", "no font here has this character; elsewhere one may", fails=False),
    "not-settled": Rule("minor", "the page was still changing when the time was over", fails=False),
    "not-read": Rule(
        "minor", "part of what was streamed could not be read, so it was not compared", fails=False
    ),
    "not-shown": Rule("minor", "one of several answers is nowhere on the page", fails=False),
    "too-many": Rule("minor", "more findings than are kept", fails=False),
    "ufffd-literal": Rule("none", "a U+FFFD that was really sent is shown", fails=False),
}
TEXT_RULES = {
    "dropped": "dropped-text", "duplicated": "duplicated-text", "reordered": "reordered-text", "latin1": "latin1-mojibake", "changed": "changed-text",
}  # fmt: skip


def rule_of(finding: dict[str, Any]) -> str:
    """Return the name of the rule that a finding violates.

    >>> rule_of({"place": "text", "kind": "ufffd", "live": False, "frames": 1, "detached": False})
    'ufffd-painted'
    """
    if finding["detached"] or (not finding["live"] and not finding["frames"]):
        return "ufffd-unpainted"
    if finding["kind"] == "surrogate":
        return "lone-surrogate"
    if finding["place"] != "text":
        return f"ufffd-{finding['place']}"
    return "ufffd-persistent" if finding["live"] else "ufffd-painted"


HALVES = re.compile("[\ud800-\udfff]+")
HALVES_CAUSE = (
    "The engine sent the halves of a UTF-16 pair in two events: it cuts its text by UTF-16 unit. Mend the engine; "
    "until then a page can wait for the second half before it shows the first."
)


def cause(finding: dict[str, Any], sent_broken: bool = False) -> str:
    """Return the likely cause of a finding, and how to fix it."""
    if sent_broken and finding["kind"] == "surrogate":
        return HALVES_CAUSE
    if sent_broken:
        return "The engine sent it so: it decodes each token by itself. Mend the engine, or read its token ids or bytes and decode those."
    culprit = finding.get("culprit")
    if finding["kind"] == "surrogate":
        if finding["live"]:
            return (
                "Half a UTF-16 pair stayed: the text was cut by UTF-16 unit between two messages, or \\uXXXX escapes were decoded one by one. "
                "Join the halves before they are shown or stored."
            )
        return "Text is shown by UTF-16 unit (slice, charAt, substring) and cuts a pair: cut by code point (Array.from) or by Intl.Segmenter."
    if culprit:
        where = f" at {culprit['line']}" if culprit["line"] else ""
        if culprit["stream"]:
            return (
                f"The bytes that TextDecoder.decode(…, {{stream: true}}) was given{where} had U+FFFD in them, or were cut before: what "
                "sends them decodes unfinished characters (or a new decoder is made for each chunk)."
            )
        if not culprit["flush"]:
            return f"TextDecoder.decode{where} was given a chunk without {{stream: true}}: keep one decoder for the whole stream, and pass it."
    if not finding["live"]:
        return (
            "The end of an unfinished text was decoded and shown, and mended when more came: "
            "hold an incomplete character back until it is whole."
        )
    if finding["run"] >= 2:
        return (
            "Each piece of one character was decoded by itself, in the browser, in a proxy or in the engine: "
            "one decoder that keeps its state must see the whole stream."
        )
    return (
        "A character was cut and its rest was lost or decoded by itself: look for a decoder a chunk, `chunk.toString()`, "
        "`decode(errors='replace')` or `from_utf8_lossy` on the way."
    )


HELD_MS = 1000.0  # from here on a text that was held back is worth a note
HELD_CAUSE = (
    "The page waits before it shows what it has: for the end of the answer, a line or a word, "
    "or for an animation that is slower than the stream."
)

TEXT_CAUSES = {
    "dropped-text": "Bytes or characters are thrown away: decode(errors='ignore'), a filter that deletes U+FFFD, or an end of stream that flushes nothing.",
    "duplicated-text": "The same piece was shown twice: a retry, a resumed stream, or a delta that repeats what was held.",
    "reordered-text": "Pieces were shown in another order than they came: concurrent reads, or state set from a stale value.",
    "latin1-mojibake": "Bytes were taken for Latin-1: atob() gives bytes, not text, and a response without a charset may be read so. Decode them as UTF-8.",
    "changed-text": "The characters were replaced on their way: compare what each step receives.",
}  # fmt: skip


def verdict(
    findings: Sequence[dict[str, Any]],
    *,
    url: str,
    text: str = "",
    truth: str | None = None,
    literal: bool | str = False,
    ignore: Iterable[str] = (),
    tofu: Sequence[dict[str, Any]] = (),
    times: int = 1,
    sent: Sequence[str] | None = None,
    answers: Sequence["Answer"] = (),
    tails: Sequence[tuple[float, str]] = (),
    max_late: float | None = None,
) -> dict[str, Any]:
    """Return the verdict in axe's format: `violations`, `incomplete` and `passes`, each a list of
    entries with `id`, `impact`, `target`, `text`, ….

    `sent` are the engine's answers as a proxy read them; without `truth` they are the true text.
    `answers` are those streams, with the times when their text arrived, and `tails` is what the
    page's changes ended in. Text that was shown more than `max_late` milliseconds after it arrived
    is a violation.
    """
    ignored = set(ignore)
    genuine = (
        [truth]
        if truth is not None
        else list(sent or ()) + ([literal] if isinstance(literal, str) else [])
    )
    own = [letters(one) for one in genuine]
    entries: list[dict[str, Any]] = []
    broken_upstream = False
    # The halves of a pair that were sent apart are broken upstream only if a reader saw one.
    halves = any(answer.sent.halves for answer in answers)
    if halves and any(f["kind"] == "surrogate" and not f["outside"] for f in findings):
        entries.append(entry("upstream-broken", target=[], text="", cause_hint=HALVES_CAUSE))
    for one in sent or ():
        # Without the true text, a U+FFFD that the engine sent may be the model's own.
        odd = "[\ud800-\udfff]" if truth is None or "\ufffd" in truth else "[\ufffd\ud800-\udfff]"
        if re.search(odd, one):
            broken_upstream = True
            entries.append(
                entry(
                    "upstream-broken",
                    target=[],
                    text=_window(one, odd),
                    cause_hint=cause({"kind": "ufffd"}, True),
                )
            )
    more = 0
    for finding in findings:
        more = max(more, finding["more"])
        if finding["outside"]:
            continue
        name = rule_of(finding)
        if finding["kind"] == "ufffd" and _is_genuine(finding, own, literal):
            name = "ufffd-literal"
        hint = (
            ""
            if name == "ufffd-literal"
            else cause(finding, broken_upstream if finding["kind"] == "ufffd" else halves)
        )
        gone = finding["gone"]
        kept = (
            {"screenshot": finding["screenshot"], "screenshot_kind": finding["screenshot_kind"]}
            if "screenshot" in finding
            else {}
        )
        entries.append(
            entry(
                name,
                target=[finding["target"]],
                place=finding["place"] + (f" {finding['name']}" if finding["name"] else ""),
                url=finding["url"],
                text=finding["text"],
                at=finding["at"],
                frames=finding["frames"],
                painted=finding["painted"],
                cleared_ms=None if gone is None else round(gone - finding["born"], 1),
                cause_hint=hint,
                **kept,
            )
        )
    if more:
        entries.append(entry("too-many", text=f"{more} more findings were not kept"))
    compared = [truth] if truth is not None else [one for one in sent or () if letters(one)]
    differences = {one: compare(one, text, times) for one in compared}
    for one, found in differences.items():
        # Some streams are not for the reader (a title, a suggestion). If another stream is shown
        # correctly, one that is not shown at all is no fault.
        if (
            len(compared) > 1
            and found
            and len(found[0].sent) >= min(60, len(letters(one)))
            and not all(differences.values())
        ):
            entries.append(entry("not-shown", target=[], text=one[:60]))
            continue
        # What is shown of a pair that was sent in halves is told already.
        entries += [_differs(d) for d in found if not (halves and HALVES.fullmatch(d.shown))]
    if not compared:
        entries += _mojibake(text)
    page = letters(text) if answers else ""
    for answer in answers:
        one = answer.sent.text or ""
        # If something is missing on the page, where the rest belongs is not certain.
        if any(whole and whole in page for whole in (letters(one), letters(unmarked(one)))):
            limit = HELD_MS if max_late is None else max_late
            entries += [
                entry(
                    "held-text" if max_late is None else "held-too-long",
                    target=[],
                    cause_hint=HELD_CAUSE,
                    **late._asdict(),
                )
                for late in held(answer.sent.arrived, tails, limit)
            ]
    entries += [
        entry(
            "tofu",
            target=[t["target"]],
            url=t["url"],
            text=t["text"],
            cause_hint=f"Install or name a font that has {t['text']}.",
        )
        for t in tofu
    ]
    entries = [e for e in entries if e["id"] not in ignored]
    broken = {e["id"] for e in entries}
    checked = [
        name
        for name in RULES
        if name not in broken
        and name not in ignored
        and _checked(name, bool(compared), bool(sent), max_late is not None and bool(answers))
    ]
    return {
        "testEngine": {"name": "detok", "version": __version__},
        "url": url,
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        "violations": [e for e in entries if RULES[e["id"]].fails],
        "incomplete": [
            e for e in entries if not RULES[e["id"]].fails and e["id"] != "ufffd-literal"
        ],
        "passes": [e for e in entries if e["id"] == "ufffd-literal"]
        + [entry(name) for name in checked],
    }


def _checked(name: str, truth: bool, sent: bool, timed: bool) -> bool:
    """Return whether a rule was checked: those about lost text need the true text."""
    if name == "held-too-long":
        return timed
    if name in TEXT_RULES.values() and name != "latin1-mojibake":
        return truth
    return sent if name == "upstream-broken" else RULES[name].fails


def entry(name: str, **fields: Any) -> dict[str, Any]:
    """Return one entry of a verdict: the rule's own fields, then `fields`.

    >>> entry("tofu", text="☃")["impact"]
    'minor'
    """
    rule = RULES[name]
    return {"id": name, "impact": rule.impact, "description": rule.description, **fields}


def _is_genuine(finding: dict[str, Any], own: Sequence[str], literal: bool | str) -> bool:
    if literal is True and finding["live"]:
        return True
    # Each place of the glyph must have the same characters before it as one in the true text.
    return all(any(letters(spot) in one for one in own) for spot in finding["spots"])


def _differs(d: Difference) -> dict[str, Any]:
    name = TEXT_RULES[d.kind]
    return entry(
        name,
        target=[],
        text=d.before + "⟦" + (d.shown or d.sent) + "⟧",
        sent=d.sent,
        shown=d.shown,
        cause_hint=TEXT_CAUSES[name],
    )


def _mojibake(text: str) -> list[dict[str, Any]]:
    runs = latin1(text)
    if not runs:
        return []
    # Correct text has no C1 controls and no `ðŸ` (an emoji read as Latin-1), but it may have two
    # accented letters in a row.
    sure = (
        any("\x80" <= c <= "\x9f" for run in runs for c in run)
        or any(run.startswith("ð") for run in runs)
        or len(runs) > 2
    )
    name = "latin1-mojibake" if sure else "latin1-suspected"
    return [
        entry(
            name,
            target=[],
            text=_window(text, re.escape(runs[0])),
            cause_hint=TEXT_CAUSES["latin1-mojibake"],
        )
    ]


def _window(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return text[max(0, match.start() - 30) : match.start() + 30] if match else text[:60]
