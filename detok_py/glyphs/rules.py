"""The rules of a verdict: how bad what breaks them is, and whether it fails a check."""

from typing import NamedTuple


class Rule(NamedTuple):
    """The impact of a violation (in axe's words), its description, whether it fails a check, and
    what must be known before the rule can pass: the true text, the engine's text, the times, or
    that the rule was asked for. No other rule passes if the page did not see every cut, a frame
    was not watched, or not every finding was kept.
    """

    impact: str
    description: str
    fails: bool = True
    needs: str = ""


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
    "latin1-mojibake": Rule(
        "critical",
        "UTF-8 bytes were read as Latin-1, windows-1252, or a code page of a console or of East Asia",
    ),
    "dropped-text": Rule(
        "critical", "characters that were sent are not on the page", needs="truth"
    ),
    "duplicated-text": Rule(
        "critical", "characters that were sent once are on the page twice", needs="truth"
    ),
    "reordered-text": Rule(
        "critical", "characters that were sent are on the page in another order", needs="truth"
    ),
    "changed-text": Rule(
        "critical", "the page shows other characters than were sent", needs="truth"
    ),
    "added-text": Rule(
        "serious", "a value of the page's program stands in the answer", needs="truth"
    ),
    "upstream-broken": Rule(
        "critical", "U+FFFD or half a pair was already in what the engine sent", needs="sent"
    ),
    "taken-back": Rule(
        "serious", "text was shown that was not sent, and was taken back", needs="sent"
    ),
    "format-markup": Rule("serious", "markup of a chat format is shown to the reader"),
    "split-character": Rule(
        "serious", "what a reader sees as one character is drawn in parts, in boxes of their own"
    ),
    "markdown-flash": Rule(
        "moderate", "Markdown syntax was shown before it was rendered", needs="markdown"
    ),
    "held-too-long": Rule(
        "serious", "text was shown later after its arrival than was allowed", needs="times"
    ),
    "no-answer": Rule("serious", "no answer was seen, so none was tested"),
    "not-asked": Rule("minor", "no answer was asked for or seen, so none was tested", fails=False),
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
    "not-watched": Rule(
        "moderate",
        "what a frame showed at first is not known: the watcher could not run in it in time",
        fails=False,
    ),
    "pieces-joined": Rule(
        "moderate",
        "the page read pieces of a stream joined, so the cuts between them tested nothing; "
        "a longer delay keeps them apart",
        fails=False,
    ),
    "added-suspected": Rule(
        "minor", "the page shows words inside a line of the answer that were not sent", fails=False
    ),
    "asked-again": Rule(
        "moderate",
        "an answer was asked for several times, and is shown more than once",
        fails=False,
    ),
    "not-shown": Rule(
        "minor", "one of several answers is not shown, or only words of it are", fails=False
    ),
    "not-timed": Rule("minor", "it is not known when part of the text was shown", fails=False),
    "too-many": Rule("minor", "more findings than are kept", fails=False),
    "ufffd-literal": Rule("none", "a U+FFFD that was really sent is shown", fails=False),
}
TEXT_RULES = {
    "dropped": "dropped-text", "duplicated": "duplicated-text", "reordered": "reordered-text", "latin1": "latin1-mojibake", "changed": "changed-text",
}  # fmt: skip
