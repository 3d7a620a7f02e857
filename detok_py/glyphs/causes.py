"""The likely causes of what a verdict reports, and the ways to mend them.

In: a finding of the watcher, or the name of a rule. Out: sentences. What was measured is stated;
what can only be guessed follows "perhaps".
"""

from typing import Any

CAUSES = {
    "sent-in-halves": (
        "The engine sent the halves of a UTF-16 pair in two events: it cuts its text by UTF-16 unit. Mend the engine; "
        "until then a page can wait for the second half before it shows the first."
    ),
    "sent-broken": (
        "The engine sent it broken: it decodes each token by itself. Mend the engine, or read its token ids or bytes and decode those."
    ),
    "half-stayed": (
        "Half a UTF-16 pair stayed: the text was cut by UTF-16 unit (slice, substring, between two messages), or \\uXXXX escapes were decoded one by one. "
        "Join the halves before they are shown or stored."
    ),
    "half-painted": (
        "Text is shown by UTF-16 unit (slice, charAt, substring) and cuts a pair: cut by code point (Array.from) or by Intl.Segmenter."
    ),
    "decoded-whole": (
        "The bytes that TextDecoder.decode(…, {stream: true}) was given<where> had U+FFFD in them, or were cut before: what "
        "sends them decodes unfinished characters (or a new decoder is made for each chunk)."
    ),
    "decoded-alone": (
        "TextDecoder.decode<where> was given a chunk without {stream: true}: keep one decoder for the whole stream, and pass it."
    ),
    "shown-unfinished": (
        "The end of an unfinished text was decoded and shown, and mended when more came: "
        "hold an incomplete character back until it is whole."
    ),
    "pieces": (
        "Each piece of one character was decoded by itself, in the browser, in a proxy or in the engine: "
        "one decoder that keeps its state must see the whole stream."
    ),
    "cut": (
        "A character was cut and its rest was lost or decoded by itself: look for a decoder a chunk, `chunk.toString()`, "
        "`decode(errors='replace')` or `from_utf8_lossy` on the way."
    ),
}  # fmt: skip


def cause(finding: dict[str, Any], sent_broken: bool = False) -> str:
    """Return the likely cause of a finding, and how to fix it."""
    line = (finding.get("culprit") or {}).get("line")
    return CAUSES[_cause(finding, sent_broken)].replace("<where>", f" at {line}" if line else "")


def _cause(finding: dict[str, Any], sent_broken: bool) -> str:
    """Return which of CAUSES is the most likely one."""
    surrogate, culprit = finding["kind"] == "surrogate", finding.get("culprit")
    if sent_broken:
        return "sent-in-halves" if surrogate else "sent-broken"
    if surrogate:
        return "half-stayed" if finding["live"] else "half-painted"
    if culprit and culprit["stream"]:
        return "decoded-whole"
    if culprit and not culprit["flush"]:
        return "decoded-alone"
    if not finding["live"]:
        return "shown-unfinished"
    return "pieces" if finding["run"] >= 2 else "cut"


THROWN_AWAY = "bytes or characters are thrown away (decode(errors='ignore'), a filter that deletes U+FFFD, an end of stream that flushes nothing), the page took it for markup"
LATER = "or it comes later than the check has waited (quiet)."
# Why text is missing, as far as the document tells.
DROPPED = {
    "hidden": "It is in the document, but no reader can see it there: {}. Show it, or check after what shows it.",
    "gone": (
        "It was in the document, and was taken out again. Perhaps: a list that keeps only the lines in view (a reader can scroll back; "
        "then ignore the rule dropped-text), or an answer that was replaced or cleared."
    ),
    "old": "It stands where it stood before the page was asked; nothing of this answer was shown. Perhaps it goes to an element that is not on the page.",
    "absent": f"At the end it does not stand in its place. Perhaps: {THROWN_AWAY}, {LATER}",
}  # fmt: skip
# Of what breaks a rule, if no more is known.
BY_RULE = {
    "dropped-text": f"No reader can see it at the end. Perhaps: {THROWN_AWAY}, it is hidden, {LATER}",
    "duplicated-text": "It is there more often than it was sent. Perhaps: a retry, a resumed stream, or a delta that repeats what was held.",
    "reordered-text": "The pieces stand in another order than they came. Perhaps: concurrent reads, or state set from a stale value.",
    "latin1-mojibake": "Bytes were decoded as Latin-1: atob() gives bytes, not text, and a response without a charset may be decoded so. Decode them as UTF-8.",
    "changed-text": "The page shows other characters there. Perhaps a decoder or a filter on the way: compare what each step receives.",
    "held-too-long": (
        "The page showed it later than it came. Perhaps it waits for the end of the answer, a line or a word, "
        "or an animation is slower than the stream."
    ),
    "format-markup": (
        "{} is markup of the model that nothing has parsed: start the engine with the parsers of its model (for reasoning and for tool calls), "
        "or read the answer in its format. If the answer is about markup, pass it to a test as allow_literal, or ignore the rule format-markup (--ignore)."
    ),
    "split-character": "{} has parts in elements that are drawn apart, such as inline-block: put whole characters into an element (Intl.Segmenter; of Arabic whole words), or leave the elements inline.",
    "markdown-flash": "The page shows syntax whose end has not come yet: hold it back, or complete it before it is rendered.",
    "taken-back": "It was shown, was not sent, and is gone. Perhaps a guess was shown before it was certain: an unfinished character, a stop string, or a retry that says something else.",
    "added-text": (
        "It was not sent. A value that is no text was joined to one (undefined, null, an object), an event was shown as it came, or text was escaped twice: "
        "start with an empty text, skip events that have none, and do not show what JSON.parse refuses."
    ),
}  # fmt: skip
CODE_PAGE = "Bytes were taken for a console's code page (437 or 850), as PowerShell does with the output of a program: set [Console]::OutputEncoding to UTF-8."
TWICE_CAUSE = (
    "The whole answer stands there twice, one copy behind the other, and was sent once. Perhaps: a message that is added twice "
    "(an effect that runs twice, a retry, a history that is loaded again)."
)
