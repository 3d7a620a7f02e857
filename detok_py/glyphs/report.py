"""The verdict on what was seen: in axe's format, as JUnit XML, and as an HTML page.

In: findings of the watcher, the page's text, and the true text if it is known. Out: `{"violations",
"incomplete", "passes"}`. A violation is a fault that a reader could see. Incomplete is what a
person has to judge; it never fails a check.
"""

import datetime
import html
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

from .. import __version__
from .truth import Difference, compare, latin1, letters


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


def cause(finding: dict[str, Any], sent_broken: bool = False) -> str:
    """Return the likely cause of a finding, and how to fix it."""
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
    extra: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Return the verdict in axe's format: `violations`, `incomplete` and `passes`, each a list of
    entries with `id`, `impact`, `target`, `text`, ….

    `sent` are the engine's answers as a proxy read them; without `truth` they are the true text.
    `extra` are entries to add.
    """
    ignored = set(ignore)
    genuine = (
        [truth]
        if truth is not None
        else list(sent or ()) + ([literal] if isinstance(literal, str) else [])
    )
    own = [letters(one) for one in genuine]
    entries: list[dict[str, Any]] = list(extra)
    broken_upstream = False
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
            else cause(finding, broken_upstream and finding["kind"] == "ufffd")
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
        entries += [_differs(d) for d in found]
    if not compared:
        entries += _mojibake(text)
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
        if name not in broken and name not in ignored and _checked(name, bool(compared), bool(sent))
    ]
    return {
        "testEngine": {"name": "detok", "version": __version__},
        "url": url,
        "timestamp": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "violations": [e for e in entries if RULES[e["id"]].fails],
        "incomplete": [
            e for e in entries if not RULES[e["id"]].fails and e["id"] != "ufffd-literal"
        ],
        "passes": [e for e in entries if e["id"] == "ufffd-literal"]
        + [entry(name) for name in checked],
    }


def _checked(name: str, truth: bool, sent: bool) -> bool:
    """Return whether a rule was checked: those about lost text need the true text."""
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


def visible(text: str) -> str:
    """Return `text` in a printable form: lone surrogates and controls as code points.

    >>> visible("a" + chr(0xD83D))
    'a[U+D83D]'
    """
    return "".join(
        [
            f"[U+{ord(c):04X}]"
            if "\ud800" <= c <= "\udfff" or (c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f"
            else c
            for c in text
        ]
    )


def sentence(result: dict[str, Any]) -> str:
    """Return the violations as text for people."""
    found = result["violations"]
    said = ""
    lines = [
        f"{len(found)} broken {'glyph was' if len(found) == 1 else 'glyphs were'} shown on {result['url'] or 'the page'}:"
    ]
    for one in found[:20]:
        where = " ".join(one.get("target") or []) or "the page's text"
        shown = f", {one['frames']} frames" if one.get("frames") else ""
        lines.append(
            f"  {one['id']} ({one['impact']}) in {where}{shown}: {visible(one.get('text', ''))!r}"
        )
        if one.get("cause_hint") and one["cause_hint"] != said:
            said = one["cause_hint"]
            lines.append(f"    {said}")
    if len(found) > 20:
        lines.append(f"  … and {len(found) - 20} more.")
    return "\n".join(lines)


def difference(faults: Sequence[Difference]) -> str:
    """Return the differences that `compare` found as text for people."""
    lines = ["The page does not show what was sent:"]
    for d in faults[:20]:
        lines.append(
            f"  {d.kind} after {visible(d.before)!r}: sent {visible(d.sent)!r}, shown {visible(d.shown)!r}"
        )
        lines.append(f"    {TEXT_CAUSES[TEXT_RULES[d.kind]]}")
    return "\n".join(lines)


def as_json(result: dict[str, Any]) -> str:
    """Return the verdict as JSON in ASCII, which can carry lone surrogates."""
    return json.dumps(result, indent=2, ensure_ascii=True) + "\n"


def as_junit(result: dict[str, Any]) -> str:
    """Return the verdict as JUnit XML: one test case a rule. Incomplete entries are skipped tests.

    >>> as_junit(verdict([], url="http://127.0.0.1/")).count("<testcase")
    9
    """
    cases = []
    names = dict.fromkeys(
        [e["id"] for e in result["passes"] + result["violations"] + result["incomplete"]]
    )
    failures = skipped = 0
    for name in names:
        bad = [e for e in result["violations"] if e["id"] == name]
        open_ = [e for e in result["incomplete"] if e["id"] == name]
        inner = ""
        for e in bad:
            detail = visible(
                f"{' '.join(e.get('target') or [])}\n{e.get('text', '')}\n{e.get('cause_hint', '')}"
            )
            inner += f"<failure message={quoteattr(RULES[name].description)} type={quoteattr(e['impact'])}>{html.escape(detail)}</failure>"
        if open_ and not bad:
            skipped += 1
            inner = f"<skipped message={quoteattr(visible(RULES[name].description + ': ' + str(open_[0].get('text', ''))))}/>"
        failures += bool(bad)
        cases.append(
            f'  <testcase classname="detok.check" name={quoteattr(name)}>{inner}</testcase>'
        )
    head = f'<testsuite name="detok check" tests="{len(cases)}" failures="{failures}" errors="0" skipped="{skipped}"'
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n{head} timestamp="{result["timestamp"]}">\n'
        + "\n".join(cases)
        + "\n</testsuite>\n"
    )


CSS = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif } body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
article { border: 1px solid #8886; border-left: .4rem solid #b00020; border-radius: .3rem; padding: .2rem 1rem; margin: 1rem 0 }
.incomplete article { border-left-color: #a06000 } .passes li { margin: .2rem 0 }
q, .text { font-size: 1.1rem; overflow-wrap: anywhere; quotes: none; background: #8882; padding: .2rem .4rem;
  display: block; white-space: pre-wrap }
mark { outline: 2px solid #b00020; background: #ffe08a; color: #000 } code { overflow-wrap: anywhere }
img { max-width: 100%; border: 1px solid #8886 }
dt { font-weight: 600 } dd { margin: 0 0 .4rem 0 }
"""


def as_html(result: dict[str, Any]) -> str:
    """Return the verdict as one HTML file, with each fault in its context and its screenshot.

    The file has no scripts and loads nothing.
    """
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        "<meta http-equiv=content-security-policy content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f"<title>Broken glyphs: {len(result['violations'])}</title><style>{CSS}</style>",
        f"<h1>{len(result['violations'])} broken glyph{'s' * (len(result['violations']) != 1)}</h1>",
        f"<p><code>{html.escape(visible(result['url']))}</code>, {result['timestamp']}, detok {html.escape(result['testEngine']['version'])}</p>",
    ]
    for group, title in (("violations", "Violations"), ("incomplete", "To be judged")):
        parts.append(f"<section class={group}><h2>{title}: {len(result[group])}</h2>")
        parts += [_article(e) for e in result[group]]
        parts.append("</section>")
    parts.append(f"<section class=passes><h2>Passes: {len(result['passes'])}</h2><ul>")
    for e in result["passes"]:
        shown = f": {_marked(e)}" if e.get("text") else ""
        parts.append(f"<li><code>{e['id']}</code> {html.escape(e['description'])}{shown}")
    parts.append("</ul></section>")
    return "\n".join(parts) + "\n"


def _marked(e: dict[str, Any]) -> str:
    pieces = re.split("([\ufffd\ud800-\udfff]+)", e.get("text", ""))
    return "".join(
        [
            f"<mark>{html.escape(visible(p))}</mark>" if i % 2 else html.escape(visible(p))
            for i, p in enumerate(pieces)
        ]
    )


def _article(e: dict[str, Any]) -> str:
    facts = []
    if e.get("target"):
        facts.append(
            (
                "Where",
                f"<code>{html.escape(' '.join(e['target']))}</code> ({html.escape(e.get('place', ''))}) on <code>{html.escape(e.get('url', ''))}</code>",
            )
        )
    if "frames" in e:
        gone = (
            "still there at the end"
            if e["cleared_ms"] is None
            else f"gone after {e['cleared_ms']} ms"
        )
        facts.append(
            (
                "When",
                f"{e['frames']} frames{'' if e['painted'] else ', not painted as text'}; {gone}",
            )
        )
    if e.get("cause_hint"):
        facts.append(("Likely cause", html.escape(e["cause_hint"])))
    picture = ""
    if e.get("screenshot"):
        what = (
            "The page"
            if e.get("screenshot_kind") == "page"
            else "The recorded text, painted again in its font"
        )
        picture = f"<figure><img alt={quoteattr(what)} src='data:image/png;base64,{e['screenshot']}'><figcaption>{what}.</figcaption></figure>"
    body = "".join([f"<dt>{k}<dd>{v}" for k, v in facts])
    return f"<article><h3>{e['id']} <small>{e['impact']}</small></h3><p>{html.escape(e['description'])}.<div class=text>{_marked(e)}</div><dl>{body}</dl>{picture}</article>"
