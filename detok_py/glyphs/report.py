"""Write a verdict: as text for people, as JSON, as JUnit XML, and as an HTML page.

In: a verdict (`verdict.verdict`). Out: a string.
"""

import html
import json
import re
from collections.abc import Sequence
from typing import Any

from .causes import BY_RULE
from .rules import RULES, TEXT_RULES
from .truth import Difference

INVISIBLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def visible(text: str) -> str:
    """Return `text` in a printable form: lone surrogates, controls, and what XML forbids as code
    points.

    >>> visible("a" + chr(0xD83D))
    'a[U+D83D]'
    """
    return INVISIBLE.sub(lambda c: f"[U+{ord(c[0]):04X}]", text)


def sentence(result: dict[str, Any]) -> str:
    """Return the violations as text for people."""
    found = result["violations"]
    said = ""
    if all(one["id"] == "no-answer" for one in found):
        where = result["url"] or "the page"
        why = [f"  {visible(one['text'])}.\n    {one['cause_hint']}" for one in found]
        return "\n".join([f"No answer was tested on {where}:", *why])
    lines = [f"{counted(found)} on {result['url'] or 'the page'}:"]
    for one in found[:20]:
        where = " ".join(one.get("target") or []) or "the page's text"
        shown = f", {_frames(one)}" if one.get("frames") else ""
        shown += how_late(one)
        lines.append(
            f"  {one['id']} ({one['impact']}) in {where}{shown}: {visible(one.get('text', ''))!r}"
        )
        if one.get("cause_hint") and one["cause_hint"] != said:
            said = one["cause_hint"]
            lines.append(f"    {said}")
    if len(found) > 20:
        lines.append(f"  … and {len(found) - 20} more.")
    return "\n".join(lines)


# By rule, what a verdict without violations leaves open.
DOUBTS = {
    "pieces-joined": "cut was tested",
    "not-watched": "frame was watched",
    "too-many": "finding was kept",
}


def clean(result: dict[str, Any], where: str = "") -> str:
    """Return what a verdict without violations says, without the full stop."""
    said = "No broken glyph was shown" + where
    unsure = {one["id"] for one in result["incomplete"]}
    return said + "".join([f", but not every {DOUBTS[one]}" for one in DOUBTS if one in unsure])


COMPARED = (
    "The text was compared with what was sent. Not compared are spaces, ASCII punctuation, typographic quotes and dashes, "
    "formulas, diagrams and ruby that the page has rendered, and words that it adds (but undefined, [object Object], [DONE])."
)
NOT_COMPARED = (
    "Whether text is missing was not checked: its rule is ignored, or what was sent is not known "
    "(the proxy, --split, tells it if it can read the stream; else the true text, --text)."
)
WATCHED = "The page was watched until {:.1f} s after its last answer had ended."
NOT_ASKED = "No answer was asked for or seen, so none was tested: add --prompt TEXT or --script FILE, and --split every-byte to cut its stream."


def scope(result: dict[str, Any]) -> str:
    """Return what a verdict without violations covers, as text for people."""
    if any(one["id"] == "not-asked" for one in result["incomplete"]):
        return NOT_ASKED
    passed = {one["id"] for one in result["passes"]}
    said = COMPARED if "dropped-text" in passed else NOT_COMPARED
    if result.get("given"):
        said = said.replace("what was sent", "the text that was given", 1)
    if "watched_ms" in result:
        said += " " + WATCHED.format(result["watched_ms"] / 1000)
    return said


def doubt(result: dict[str, Any]) -> str:
    """Return which cuts were not tested, which frames not watched, and how many findings not kept,
    as text for people; "" if all were.
    """
    unsure = [one for one in result["incomplete"] if one["id"] in DOUBTS]
    lines = [f"  {one['text']}: {one['description']}." for one in unsure]
    return "\n".join([f"{clean(result)}:", *lines] if unsure else [])


# What `counted` writes after "1 piece of text was"; for other rules it counts broken glyphs.
PIECES = {
    "dropped-text": "dropped",
    "duplicated-text": "shown twice",
    "reordered-text": "shown in another order",
    "changed-text": "changed",
    "latin1-mojibake": "read as Latin-1",
    "added-text": "added by the page",
    "upstream-broken": "broken when the engine sent it",
    "taken-back": "shown and taken back",
    "format-markup": "markup of a chat format",
    "split-character": "drawn in parts",
    "markdown-flash": "shown as Markdown syntax",
    "held-too-long": "held",
    "no-answer": "no answer was tested",
}


def counted(found: Sequence[dict[str, Any]]) -> str:
    """Return how many violations of each kind there are, in words.

    >>> counted([{"id": "ufffd-painted"}, {"id": "held-too-long", "late_ms": 2512.0}])
    '1 broken glyph was shown, 1 piece of text was held 2.5 s'
    """
    kinds: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        kinds.setdefault(PIECES.get(one["id"], ""), []).append(one)
    said = []
    for kind, ones in kinds.items():
        if ones[0]["id"] == "no-answer":
            said.append(kind)
            continue
        many = len(ones) > 1
        what = f"piece{'s' * many} of text" if kind else f"broken glyph{'s' * many}"
        late = max([one.get("late_ms", 0.0) for one in ones]) / 1000
        how = f"{kind} {late:.1f} s" if late else kind or "shown"
        said.append(f"{len(ones)} {what} {'were' if many else 'was'} {how}")
    return ", ".join(said)


def _frames(one: dict[str, Any]) -> str:
    return f"{one['frames']} frame{'s' * (one['frames'] != 1)}"


def how_late(one: dict[str, Any]) -> str:
    """Return how late the text of an entry was shown; "" if that was not measured.

    >>> how_late({"late_ms": 1500.0, "late_characters": 12})
    ', 12 characters up to 1500 ms late'
    """
    if "late_ms" not in one:
        return ""
    return f", {one['late_characters']} characters up to {one['late_ms']:g} ms late"


def difference(faults: Sequence[Difference]) -> str:
    """Return the differences that `compare` found as text for people."""
    lines = ["The page does not show what was sent:"]
    for d in faults[:20]:
        lines.append(
            f"  {d.kind} after {visible(d.before)!r}: sent {visible(d.sent[:60])!r}, shown {visible(d.shown[:60])!r}"
        )
        lines.append(f"    {BY_RULE[TEXT_RULES[d.kind]]}")
    return "\n".join(lines)


def as_json(result: dict[str, Any]) -> str:
    """Return the verdict as JSON in ASCII, which can carry lone surrogates."""
    return json.dumps(result, indent=2, ensure_ascii=True) + "\n"


def as_junit(result: dict[str, Any]) -> str:
    """Return the verdict as JUnit XML: one test case a rule. Incomplete entries are skipped tests.

    >>> from .evidence import Options, Seen
    >>> from .verdict import verdict
    >>> as_junit(verdict(Seen([], "http://127.0.0.1/"), Options())).count("<testcase")
    12
    """
    cases = []
    entries = result["passes"] + result["violations"] + result["incomplete"]
    names = dict.fromkeys([e["id"] for e in entries])
    failures = skipped = 0
    for name in names:
        bad = [e for e in result["violations"] if e["id"] == name]
        open_ = [e for e in result["incomplete"] if e["id"] == name]
        inner = ""
        for e in bad:
            target = " ".join(e.get("target") or [])
            detail = visible(f"{target}\n{e.get('text', '')}\n{e.get('cause_hint', '')}")
            inner += f"<failure message={_quoted(RULES[name].description)} type={_quoted(e['impact'])}>{html.escape(detail)}</failure>"
        if open_ and not bad:
            skipped += 1
            inner = f"<skipped message={_quoted(visible(RULES[name].description + ': ' + str(open_[0].get('text', ''))))}/>"
        failures += bool(bad)
        cases.append(f'  <testcase classname="detok.check" name={_quoted(name)}>{inner}</testcase>')
    head = f'<testsuite name="detok check" tests="{len(cases)}" failures="{failures}" errors="0" skipped="{skipped}"'
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n{head} timestamp="{result["timestamp"]}">\n'
        + "\n".join(cases)
        + "\n</testsuite>\n"
    )


def _quoted(text: str) -> str:
    """Return an attribute's value in quotes, for XML and HTML."""
    return '"' + html.escape(text).replace("\n", "&#10;") + '"'


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
    said = counted(result["violations"]) or clean(result)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        "<meta http-equiv=content-security-policy content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f"<title>{said}</title><style>{CSS}</style>",
        f"<h1>{said}</h1>",
        f"<p>{html.escape(scope(result))}" * (not result["violations"]),
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
    shown = [html.escape(visible(piece)) for piece in pieces]
    return "".join([f"<mark>{one}</mark>" if i % 2 else one for i, one in enumerate(shown)])


def _article(e: dict[str, Any]) -> str:
    facts = []
    if e.get("target"):
        place, url = (html.escape(e.get(name, "")) for name in ("place", "url"))
        target = html.escape(" ".join(e["target"]))
        facts.append(("Where", f"<code>{target}</code> ({place}) on <code>{url}</code>"))
    if "frames" in e:
        after = e["cleared_ms"]
        gone = "still there at the end" if after is None else f"gone after {after} ms"
        painted = "" if e["painted"] else ", not painted as text"
        facts.append(("When", f"{_frames(e)}{painted}; {gone}"))
    if "late_ms" in e:
        facts.append(("How late", how_late(e)[2:]))
    if e.get("cause_hint"):
        facts.append(("Likely cause", html.escape(e["cause_hint"])))
    picture = ""
    if e.get("screenshot"):
        of_page = e.get("screenshot_kind") == "page"
        what = "The page" if of_page else "The recorded text, painted again in its font"
        picture = f"<figure><img alt={_quoted(what)} src='data:image/png;base64,{e['screenshot']}'><figcaption>{what}.</figcaption></figure>"
    body = "".join([f"<dt>{k}<dd>{v}" for k, v in facts])
    return f"<article><h3>{e['id']} <small>{e['impact']}</small></h3><p>{html.escape(e['description'])}.<div class=text>{_marked(e)}</div><dl>{body}</dl>{picture}</article>"
