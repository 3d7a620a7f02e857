"""The verdict on what was seen: which rules it breaks, in axe's format.

In: findings of the watcher, the page's text, and the true text if it is known. Out: `{"violations",
"incomplete", "passes"}`. A violation is a fault that a reader could see. Incomplete is what a
person has to judge; it never fails a check. `report` writes a verdict for people and programs.
"""

import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

from .. import __version__
from ..captures.mojibake import CAUSES as MISREAD
from ..captures.mojibake import CONSOLE, LATIN, find_misread
from ..captures.replaced import read_as
from .absent import is_absent, is_new
from .added import in_lines, strays, values
from .causes import BY_RULE, CAUSES, CODE_PAGE, DROPPED, TWICE_CAUSE, cause
from .evidence import Options, Seen
from .held import SKEW, SURE, held, taken_back, untimed, was_shown
from .markup import flashed
from .rules import RULES, TEXT_RULES
from .truth import (
    Difference,
    compare,
    copies,
    is_rendered,
    latin1,
    letters,
    unmarked,
    without_own,
)


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


MARKS = re.compile("^[\u0300-\u036f]+")  # of a letter that stands before a piece of text
HALVES = re.compile("[\ud800-\udfff]+")
HELD_MS = 1000.0  # text held back for longer is reported as incomplete


Entries = Iterator[dict[str, Any]]


def verdict(seen: Seen, options: Options) -> dict[str, Any]:
    """Return the verdict in axe's format: `violations`, `incomplete` and `passes`, each a list of
    entries with `id`, `impact`, `target`, `text`, ….
    """
    ignored = set(options.ignore)
    first = (_no_answer, _upstream, _glyphs, _not_kept, _not_watched, _joined, _text, _strays)
    parts = (*first, _taken_back, _markup, _split, _markdown, _late, _tofu)
    entries = [e for part in parts for e in part(seen, options) if e["id"] not in ignored]
    literal = [e for e in entries if e["id"] == "ufffd-literal"]
    ids = {e["id"] for e in entries}
    known = {
        "": not ids & {"pieces-joined", "not-watched", "too-many", "no-answer", "not-asked"},
        "truth": bool(options.compared),
        "sent": bool(options.sent),
        "markdown": options.markdown,
        "times": options.max_late is not None and any(a.sent.text for a in options.answers),
    }
    known["times"] = known["times"] and not ids & {"not-timed", *TEXT_RULES.values()}
    unbroken = [name for name in RULES if name not in ignored | ids]
    return {
        "testEngine": {"name": "detok", "version": __version__},
        "url": seen.url,
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        "violations": [e for e in entries if RULES[e["id"]].fails],
        "incomplete": [
            e for e in entries if not RULES[e["id"]].fails and e["id"] != "ufffd-literal"
        ],
        "passes": literal
        + [entry(name) for name in unbroken if RULES[name].fails and known[RULES[name].needs]],
    }


def entry(name: str, **fields: Any) -> dict[str, Any]:
    """Return one entry of a verdict: the rule's own fields, then `fields`.

    >>> entry("tofu", text="☃")["impact"]
    'minor'
    """
    rule = RULES[name]
    return {"id": name, "impact": rule.impact, "description": rule.description, **fields}


# --- the parts of a verdict -----------------------------------------------------------------------
def _no_answer(seen: Seen, options: Options) -> Entries:
    """That there was no answer to test."""
    if options.missing:
        name = "no-answer" if options.missing.was_asked else "not-asked"
        yield entry(name, target=[], text=options.missing.text, cause_hint=options.missing.hint)


def _upstream(seen: Seen, options: Options) -> Entries:
    """Broken text that the engine sent."""
    # The halves of a pair that were sent apart are a fault only if a reader saw one.
    halves = [f for f in seen.findings if f["kind"] == "surrogate" and not f["outside"]]
    if options.halves and halves:
        yield entry("upstream-broken", target=[], text="", cause_hint=CAUSES["sent-in-halves"])
    for one in options.sent:
        if re.search(options.odd, one):
            text, hint = _window(one, options.odd), CAUSES["sent-broken"]
            yield entry("upstream-broken", target=[], text=text, cause_hint=hint)


def _glyphs(seen: Seen, options: Options) -> Entries:
    """Broken glyphs that the page showed."""
    forms = [form for one in options.genuine for form in dict.fromkeys((one, unmarked(one)))]
    own, page = list(map(letters, forms)), letters(seen.text)
    broken = any(re.search(options.odd, one) for one in options.sent)
    for finding in seen.findings:
        if finding["outside"]:
            continue
        ufffd, gone = finding["kind"] == "ufffd", finding["gone"]
        genuine = ufffd and _is_genuine(finding, own, options.allow_literal, page)
        picture = ("screenshot", "screenshot_kind") if "screenshot" in finding else ()
        yield entry(
            "ufffd-literal" if genuine else rule_of(finding),
            target=[finding["target"]],
            place=f"{finding['place']} {finding['name'] or ''}".rstrip(),
            **{key: finding[key] for key in ("url", "text", "at", "frames", "painted")},
            cleared_ms=None if gone is None else round(gone - finding["born"], 1),
            cause_hint="" if genuine else cause(finding, broken if ufffd else options.halves),
            **{key: finding[key] for key in picture},
        )


def _not_kept(seen: Seen, options: Options) -> Entries:
    """Findings that the watcher has counted, but not kept."""
    more = max((finding["more"] for finding in seen.findings), default=0)
    if more:
        yield entry("too-many", text=f"{more} more findings were not kept")


def _not_watched(seen: Seen, options: Options) -> Entries:
    """Frames in which the watcher did not run in time."""
    for address in dict.fromkeys(seen.unwatched):
        yield entry("not-watched", target=[], url=address, text=address)


def _joined(seen: Seen, options: Options) -> Entries:
    """Cuts that the page did not see."""
    for answer in options.answers:
        joined, cuts = answer.reads.joined, len(answer.reads.cuts)
        if joined:
            text = f"{joined} of {cuts} cuts of {answer.url}"
            yield entry("pieces-joined", target=[], url=answer.url, text=text)


def _text(seen: Seen, options: Options) -> Entries:
    """How the page's text differs from the true text, if that is known."""
    if not options.compared:
        yield from _mojibake(seen.text)
    differences = {one: compare(one, seen.text, options.times) for one in options.compared}
    for one, found in differences.items():
        if is_absent(one, differences, seen, options):
            yield entry("not-shown", target=[], text=one[:60])
            continue
        for difference in found:
            # `_upstream` has reported a pair that was sent in halves.
            if not (options.halves and HALVES.fullmatch(difference.shown)):
                yield _differs(difference, seen, one)
        if not found and not is_new(one, seen, options):
            yield entry("dropped-text", target=[], text=one[:60], cause_hint=DROPPED["old"])
        added = values(one, seen.text, [*options.compared, options.before or ""])
        for text in added:
            yield entry("added-text", target=[], text=text, cause_hint=BY_RULE["added-text"])
        if not found:
            yield from _twice(one, seen, options)
            for text in [] if added else in_lines(one, seen.text):
                yield entry("added-suspected", target=[], text=text)


def _strays(seen: Seen, options: Options) -> Entries:
    """Values of a program that stand anywhere, and were not there before the page was asked."""
    if options.before is None or not options.compared:
        return
    known = "\n".join([*options.compared, *options.sent, options.before])
    found = strays(known, seen.text)
    near = [text for one in options.compared for text in values(one, seen.text) if found]
    for text in found:
        if not any(text in one or one.endswith(text) for one in near):
            yield entry("added-text", target=[], text=text, cause_hint=BY_RULE["added-text"])


def _twice(one: str, seen: Seen, options: Options) -> Entries:
    """A whole answer that stands on the page twice, and was sent once."""
    sent = [answer for answer in options.answers if answer.sent.text == one]
    if (not sent and options.before is None) or letters(one) in map(letters, options.asked(one)):
        return  # it may have been there before, or be the user's own message
    count = copies(one, seen.text, options.before)
    if not count and options.before is not None:
        count = copies(one, without_own(one, seen.text), without_own(one, options.before))
    if count and len(sent) > 1 == len({answer.url for answer in sent}) == options.times:
        url = sent[0].url
        yield entry("asked-again", target=[], url=url, text=f"{url}, {len(sent)} times")
        return
    if count <= max(len(sent), options.times, 1) - 1:
        return
    # An older answer may say the same.
    end, first = letters(one)[-SURE:], min([a.sent.arrived[0][0] for a in sent], default=0.0)
    if any(letters(tail).endswith(end) for when, tail in seen.tails if when < first - SKEW):
        return
    yield entry("duplicated-text", target=[], text=one[:60], cause_hint=TWICE_CAUSE)


def _taken_back(seen: Seen, options: Options) -> Entries:
    """Text that was shown as part of an answer, and does not belong to it."""
    for one in options.compared:
        for text in taken_back(one, seen.tails, seen.text):
            yield entry("taken-back", target=[], text=text, cause_hint=BY_RULE["taken-back"])


def _markup(seen: Seen, options: Options) -> Entries:
    """Markers of chat formats, unless the true text has them."""
    literal = options.allow_literal
    own = [options.truth or "", *options.literal, literal if isinstance(literal, str) else ""]
    for one in seen.markup:
        if not any(one["marker"] in text for text in own):
            yield _in_frame("format-markup", one, BY_RULE["format-markup"].format(one["marker"]))


def _split(seen: Seen, options: Options) -> Entries:
    """Characters that are drawn in parts."""
    for one in seen.split:
        yield _in_frame("split-character", one, BY_RULE["split-character"].format(one["whole"]))


def _markdown(seen: Seen, options: Options) -> Entries:
    """Markdown syntax that was shown before it was rendered, if that is asked for."""
    if options.markdown:
        for text in flashed(seen.tails, seen.text, options.compared):
            yield entry(
                "markdown-flash", target=[], text=text, cause_hint=BY_RULE["markdown-flash"]
            )


def _late(seen: Seen, options: Options) -> Entries:
    """Text that was held back before it was shown."""
    limit, name = options.max_late, "held-too-long"
    if limit is None:
        limit, name = HELD_MS, "held-text"
    for answer in options.answers:
        one = answer.sent.text or ""
        # If text is missing on the page, the places of the rest are uncertain.
        if not letters(one) or compare(one, seen.text):
            continue
        if is_rendered(one, seen.text):
            if options.max_late is not None:
                yield entry("not-timed", target=[], text=f"{one[:60]} (with formulas)")
            continue
        for late in held(answer.sent.arrived, seen.tails, limit):
            yield entry(name, target=[], cause_hint=BY_RULE["held-too-long"], **late._asdict())
        rest = untimed(answer.sent.arrived, seen.tails)
        # The address of a link, at the end of an answer, is not shown.
        if options.max_late is not None and len(rest) > max(40, len(letters(one)) // 20):
            yield entry("not-timed", target=[], text=rest[:60], cause_hint="")


def _tofu(seen: Seen, options: Options) -> Entries:
    """Characters that no font here has."""
    for one in seen.tofu:
        yield _in_frame("tofu", one, f"Install or name a font that has {one['text']}.")


def _in_frame(name: str, one: dict[str, Any], hint: str) -> dict[str, Any]:
    """Return the entry of what a script has found in a frame."""
    place = {"target": [one["target"]], "url": one["url"], "text": one["text"]}
    return entry(name, **place, cause_hint=hint)


def _is_genuine(
    finding: dict[str, Any], own: Sequence[str], literal: bool | str, page: str
) -> bool:
    """Return whether the model sent each U+FFFD of a finding itself."""
    if literal is True and finding["live"]:
        return True
    # Each place of the glyph must have the same characters before it as one in the true text.
    return all(
        any(_stands_in(letters(MARKS.sub("", spot)), one, page) for one in own)
        for spot in finding["spots"]
    )


def _stands_in(spot: str, one: str, page: str) -> bool:
    """Return whether a true text has these characters; the first ones may be a label of the page
    before the text. If the label is still there, the text begins right after it.
    """
    if spot in one:
        return True
    for n in range(1, len(spot)):
        label, start = spot[:n], spot[n:]
        if one.startswith(start):
            begins = label + one[: len(start) + SURE] in page
            if begins or (label not in page and label not in one):
                return True
    return False


def _differs(d: Difference, seen: Seen, sent: str) -> dict[str, Any]:
    name = TEXT_RULES[d.kind]
    return entry(
        name,
        target=[],
        text=d.before + "⟦" + (d.shown or d.sent)[:60] + "⟧",
        sent=d.sent[:60],
        shown=d.shown[:60],
        cause_hint=_why_dropped(d, seen, sent) if d.kind == "dropped" else BY_RULE[name],
    )


def _why_dropped(d: Difference, seen: Seen, sent: str) -> str:
    """Return what is known of text that is missing, and its likely cause."""
    for why, text in seen.hidden.items():
        hidden = letters(text)
        if d.sent == hidden or (len(d.sent) >= SURE and d.sent in hidden):
            return DROPPED["hidden"].format(why)
    gone = was_shown(sent, d.sent, d.before, seen.tails)
    return DROPPED["gone" if gone else "absent"]


def _mojibake(text: str) -> Entries:
    sure = find_misread(text)
    # A single letter may be an example, or French.
    runs = [text[run.begin : run.end] for run in sure] or latin1(text)
    east = "" if runs else read_as(text)
    if east:
        hint = f"UTF-8 was read as {east}. Decode the bytes as UTF-8."
        yield entry("latin1-mojibake", target=[], text=text[:60], cause_hint=hint)
    if not runs:
        return
    encoding = sure[0].encoding if sure else LATIN
    hint = CODE_PAGE if encoding == CONSOLE else BY_RULE["latin1-mojibake"]
    if encoding not in (CONSOLE, LATIN):
        hint = MISREAD[encoding] + ". Decode the bytes as UTF-8."
    yield entry(
        "latin1-mojibake" if sure else "latin1-suspected",
        target=[],
        text=_window(text, re.escape(runs[0])),
        cause_hint=hint,
    )


def _window(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return text[max(0, match.start() - 30) : match.start() + 30] if match else text[:60]
