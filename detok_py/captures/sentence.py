"""The verdict on a whole stream, in a few words.

In: verdicts (verdict.py), facts (imported.py), the lines that could not be read (log.py). Out:
sentences. Held: nothing.
"""

from typing import Any

from .log import CURL, DAMAGED, ENCODED, INSIDE, NO_EVENT, PAGE, PAGER
from .lost import NULS, WIDTH
from .order import plural, quoted
from .rules import LESS
from .servers import LEFT_OUT

FAILED = "The server failed."  # of an error without words (event_shapes.json)
MOST_LINES = 3  # that a sentence names
# Of events that break off: one of them may have had the end.
MESSAGES = "the messages"  # that Amazon's event streams and sockets have in place of lines
OFF = " off or cannot be read"
NO_END = (
    "{} has no end here: the server did not say that it is over, an event that breaks off did, or "
    "this is only a part."
)
TOLD = ("In line", "Curl says")
STOPS = "{} stops before its end: the server did not say that the answer is over."
CUT = " The connection was cut, or this is only a part."
NOT_WHOLE = "The arguments of a tool call are not whole JSON"
COPY_BROKEN = "`choices[].text` has � in line "
CONTROL = "The text has control tokens as text"
LENGTHS = ("length", "max_tokens", "limit", "MAX_TOKENS", "incomplete", "max_output_tokens")
LIMITS = {"tokens": ", at its limit of tokens", "context": ", at the end of its context", "": ""}
# Of a model that was done, or waits for a tool.
ORDINARY = (
    "stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_use", "tool_calls", "complete",
    "function_call", "completed", "done", "finished", "end", "finish", "stop_string", "success",
    "finish_reason_stop", "word", "load", "unload", "normal", "tool-calls", "pause_turn", "ended",
    "finished_successfully", "message_end", "run_finished",
)  # fmt: skip
# Of a server that could not go on.
BROKEN_OFF = ("insufficient_system_resource", "network_error", "error", "failed", "internal_error")
# Parts of the words with which servers say that a filter ended an answer.
FILTERS = ("filter", "safety", "prohibited", "blocklist", "recitation", "refusal", "guardrail")
# Of a server's own text, which may have been misread in a way that is not known here.
NOTHING = "Nothing{} broken was found in it."
NO_BROKEN = "No broken character was found in it."
OWN_TEXT = " It is the server's own text: pieces that are missing or came twice may not show in it."
BLAMED = (
    "engine", "model", "gateway", "sender", "server", "proxy", "recorder", "reader", "read",
    "unknown", "doubt",
)  # fmt: skip
# What the sentence on the stream says of so many places.
BLAMES = {
    "engine": "The engine broke {}.",
    "model": "The engine broke {}, unless the model wrote the � itself.",
    "gateway": "The engine, or a gateway, broke {}.",
    "sender": "The server, a proxy, or what recorded it, broke {}.",
    "server": "The server, or a proxy, broke {}.",
    "proxy": "A proxy broke {}.",
    "recorder": "A proxy, or what recorded it, broke {}.",
    "reader": "The server, a proxy, a client, or what recorded it, broke {}.",
    "read": "What read or recorded it broke {}.",
    "unknown": "It is broken in {}; by whom is not known.",
    "doubt": "In {}, it is not known who broke the text, or whether anyone did.",
}
# In the titles of pages that proxies send: RFC 9110, 15.6.3 and 15.6.5.
OF_PROXIES = ("502", "504", "Bad Gateway", "Gateway Time")


def sentence(verdicts: list[Any], fidelity: str, end: Any, facts: Any) -> tuple[str, str]:
    """Return the verdict on a whole stream in a few words, and the part of it that is not about the
    text: "" if there is none. `end` and `facts` are as in an import.
    """
    reason = str((end or {}).get("reason")).lower()
    failed = bool(end) and (end.get("type") == "error" or any(one in reason for one in FILTERS))
    said = _on_text(verdicts, fidelity, facts, failed)
    if fidelity == "text" and all(one.who == "nobody" for one in verdicts):
        said = " ".join([said] + [one.said for one in verdicts])
    if facts.lossy and not verdicts:
        said = (
            "Whether anything broke cannot be seen: the file has a dot for each byte beyond ASCII."
        )
    first, last = [facts.missing, facts.notes], ""
    of = "message" if facts.lines == MESSAGES else "line"
    if end and end.get("type") == "error":
        message = str(end.get("message") or "no reason given").strip()
        line = f" in {of} {facts.error}" if facts.error else ""
        why = "" if message == FAILED else f": “{quoted(message)}”"
        first.insert(0, f"The server ended it with an error{line}{why}.")
    elif facts.no_end:
        answer = "The last answer" if facts.others else "It"
        said_so = OFF in facts.missing and not facts.missing.startswith(TOLD)
        stops = (NO_END if said_so else STOPS).format(answer)
        known = said_so or facts.missing.startswith(TOLD) or NULS in facts.missing
        first.insert(0, stops if known else stops + CUT)
    elif end:
        first.append(_on_end(str(end.get("reason")), verdicts, facts))
    if facts.others:
        lines = listed([str(line) for line in facts.others])
        last = f"Another answer begins in {of} {lines}; its text is behind the first one's."
        if len(facts.others) > 1:
            last = f"Other answers begin in {of}s {lines}; their texts are behind the first one's."
    whole, notes = [" ".join([one for one in first + [text, last] if one]) for text in (said, "")]
    # The server's own words may name lines of something else.
    named = notes if of == "line" else f" {facts.missing} {facts.notes}"
    if facts.lines and any(mark in named for mark in (" line ", " lines ", "(line ")):
        where = f" Line numbers are those of {facts.lines}."
        whole, notes = whole + where, notes + where
    return whole, notes


def _on_end(reason: str, verdicts: list[Any], facts: Any) -> str:
    """Return a sentence on an end that is not the model's; "" if it is, or if that is said."""
    answer = "The last answer" if facts.others else "The answer"
    if any(word in reason.lower() for word in FILTERS):
        return f"{answer} was stopped by a filter: it ended with “{reason}”."
    cut = [one.rule for one in verdicts if one.who == "nobody"]
    told = f"“{reason}”" in facts.notes or any(rule.startswith("cut-") for rule in cut)
    if told or reason.lower() in ORDINARY:
        return ""
    if reason in BROKEN_OFF:
        return f"{answer} ended with “{reason}”: the server broke it off."
    at = LIMITS["context" if "context" in reason else "tokens" if reason in LENGTHS else ""]
    return f"{answer} ended with “{reason}”{at}."


def _on_text(verdicts: list[Any], fidelity: str, facts: Any, failed: bool) -> str:
    counts: dict[str, int] = {}
    rows: dict[str, set[int]] = {}
    for one in verdicts:
        if one.who != "nobody":
            blame = LESS.get(one.rule, one.who)
            seen = rows.setdefault(blame, set())
            its = {place.row for place in one.places}
            # What is wrong in two ways is one place.
            counts[blame] = counts.get(blame, 0) + one.count - len(its & seen)
            seen.update(its)
    if counts:
        named = [(BLAMES[one], counts[one]) for one in BLAMED if one in counts]
        return " ".join([said.format(plural(n, "place")) for said, n in named])
    if facts.missing:
        more = verdicts if fidelity != "text" else []
        nothing = NOTHING.format(" else") if fidelity == "text" else "Nothing else in it is broken."
        return " ".join([nothing] + [one.said for one in more])
    aside = any(one in facts.notes for one in (NOT_WHOLE, ENCODED, PAGER, COPY_BROKEN))
    else_ = " else" if facts.no_end or aside or failed else ""
    it = "choice 0" if LEFT_OUT in facts.notes else "it"
    if facts.all:
        nothing = f"No character in {it}" if CONTROL in facts.notes else f"Nothing{else_} in {it}"
        return (
            f"{nothing} is broken: the pieces are the text that the server sent whole at the end."
        )
    if fidelity == "text":
        nothing = NO_BROKEN if CONTROL in facts.notes else NOTHING.format(else_)
        return nothing.replace(" it.", f" {it}.") + OWN_TEXT
    if verdicts:
        return "Nobody broke anything. " + " ".join([one.said for one in verdicts])
    return "Nobody broke anything: every character is whole."


def listed(places: list[str]) -> str:
    """Return the first few places as a list in words.

    >>> listed(["3", "5", "9", "11", "12"]), listed(["3"])
    ('3, 5, 9 and 2 more', '3')
    """
    more = len(places) - MOST_LINES
    return ", ".join(places[:MOST_LINES]) + (f" and {more} more" if more > 0 else "")


def missing(problems: list[Any]) -> str:
    """Return the `missing` of `Facts`."""
    said = []
    for one in problems:
        if one.reason.startswith(PAGE):
            page = one.reason[len(NO_EVENT) :]
            proxy = ": a proxy gave up" if any(mark in page for mark in OF_PROXIES) else ""
            said.append(f"In line {one.line}, {page}, comes in place of the rest{proxy}.")
        elif one.reason.startswith(CURL):
            where = f"In line {one.line}, curl" if one.line else "Curl"
            said.append(f"{where} says: “{one.reason[len(NO_EVENT) :]}”.")
    nuls = [one for one in problems if one.reason.endswith(NULS)]
    if nuls:
        count = sum([int(one.reason.split(" ")[0]) for one in nuls])
        where = listed([f"line {one.line}" for one in nuls])
        said.append(
            f"{count}{NULS}, which is missing ({where}): a crash or a full disk leaves a file so."
        )
    damaged = [one for one in problems if one.reason.startswith(DAMAGED)]
    if damaged:
        lines = [
            f"line {one.line}" + (", inside a character" if INSIDE in one.reason else "")
            for one in damaged
        ]
        many = len(damaged) > 1
        events = f"{len(damaged)} events break" if many else "1 event breaks"
        text = "their texts are" if many else "its text is"
        said.append(f"{events}{OFF} ({listed(lines)}): {text} missing.")
        said += [one.reason for one in problems if one.reason.startswith(WIDTH)]
    return " ".join(said)
